/** `npm run demo`: an orchestrator, a lead and three builders, each a real Claude Code; only the model reads from a script. */
import type { Model, Story } from "../__tests__/support/model-server.ts";
import { chapter, Stage, say } from "./stage.ts";

const PARTS = [
  {
    name: "prices",
    file: "prices.js",
    title: "Write the price list",
    code: "export const PRICES = { tea: 3, cake: 4 };",
  },
  { name: "basket", file: "basket.js", title: "Write the basket", code: "export const basket = new Map();" },
  {
    name: "receipt",
    file: "receipt.js",
    title: "Write the receipt",
    code: 'export const total = (sum) => "total: " + sum;',
  },
] as const;
const NAMES = PARTS.map(({ name }) => name);
const CLOSE = (reason: string) =>
  `BRANCH=$(git branch --show-current); overseer task close "\${BRANCH##*/}" --reason "${reason}"`;

/** What the model says to whom. Everything else is the real thing. */
function script(model: Model, root: string): void {
  const slings = PARTS.map(
    ({ name, file, title }) =>
      `overseer sling "${title} in ${file}" --capability builder --name ${name} --files ${file} --no-wait`,
  );
  model
    .whenPrompt("You are lena, a lead")
    .uses("Bash", { command: slings.join(" && "), description: "Sling three builders" })
    .uses("Bash", { command: `overseer wait ${NAMES.join(" ")} --timeout 90s`, timeout: 100_000 })
    .uses("Bash", { command: NAMES.map((name) => `overseer diff ${name} --stat`).join("; ") })
    .uses("Bash", {
      command: CLOSE("The shop has prices, a basket and a receipt; three branches wait for the merge."),
    })
    .says("All three parts are done.")
    .mayGoOn("Their results agree with what I saw."); // mail at the end of a turn begins another one
  const write = (name: string, file: string, code: string) => ({
    file_path: `${root}/.overseer/worktrees/${name}/${file}`,
    content: `${code}\n`,
  });
  for (const { name, file, code } of PARTS) {
    const story = model.whenPrompt(`You are ${name}, a builder`);
    if (name === "basket") {
      story.uses("Write", write(name, "receipt.js", "// It would be quicker to do all of it here."));
      story.expects("is not among your files");
    }
    const own = name === "prices" ? asking(model, story) : story;
    own
      .uses("Write", write(name, file, code))
      .holds("the audience has seen them work")
      .uses("Bash", {
        command: `git add ${file} && git commit -qm "Add ${file}" && ${CLOSE(`${file} is there, and loads.`)}`,
      })
      .says("Done.");
  }
}

/** A builder asks, ends its turn, and goes on when the answer has woken it. */
function asking(model: Model, story: Story): Story {
  const question =
    '--type question --subject "Which currency?" --body "Euro or pound? I would take the euro."';
  story.uses("Bash", { command: `overseer mail send --to orchestrator ${question}` });
  story.says("I go on when I have the answer.");
  model
    .whenMail("Euro or pound?")
    .holds("the builder has ended its turn")
    .uses("Bash", {
      command: 'overseer mail send --to prices --subject "Re: Which currency?" --body "Take the pound."',
    })
    .says("Answered.")
    .mayGoOn("Good.");
  return model.whenMail("Take the pound.");
}

const began = performance.now();
const stage = new Stage(script);
try {
  chapter("1. A repository, and overseer in it");
  await stage.found({ "README.md": "# A shop\n" });
  await stage.type("init");
  await stage.sit();
  say(
    "You sit in front of your own Claude Code there, the orchestrator. It is idle: nobody has asked it anything.",
  );

  chapter("2. One order to a lead. It runs in tmux, in a worktree and on a branch of its own");
  await stage.type(
    "sling",
    "Build a small shop: prices, basket, receipt",
    "--capability",
    "lead",
    "--name",
    "lena",
  );

  chapter("3. The lead cuts the work and slings three builders from inside its own session");
  await stage.until("one waits for an answer", (agents) =>
    agents.some(({ name, state }) => name === "prices" && state === "idle"),
  );
  stage.model.release("the builder has ended its turn");
  await stage.until("each has written its file", () =>
    PARTS.every(({ file, name }) => stage.has(`.overseer/worktrees/${name}/${file}`)),
  );
  await stage.type("status");

  chapter("4. One had a question. It woke the orchestrator, and the answer woke the builder");
  await stage.type("mail", "list", "--limit", "2");
  await stage.type("events", "--type", "session.woken");

  chapter("5. Another tried to write a file of its neighbour's, and was turned back");
  await stage.type("events", "--type", "guard.denied");

  chapter("6. Look over a shoulder, without disturbing");
  await stage.type("diff", "basket", "--stat");
  await stage.type("logs", "basket", "--lines", "4");

  chapter("7. They commit, close their tasks and are gone; the lead has waited for them, and finishes too");
  stage.model.release("the audience has seen them work");
  await stage.type("wait", "lena", ...NAMES, "--timeout", "60s");
  await stage.type("status");

  chapter("8. The lead's result is in your mail");
  await stage.type("mail", "check");

  chapter("9. Nothing of yours has moved: the work waits on its branches");
  await stage.type("worktree", "list");
  stage.model.verify();
  say(
    `\nThat took ${((performance.now() - began) / 1000).toFixed(0)} seconds. Everything is kept for a look: cd ${stage.root}`,
  );
  say(`What the agents were told and did is in .overseer/logs; remove ${stage.folder} when you are done.`);
} finally {
  await stage.end();
}
