/** `npm run demo`: a lead and three builders, each a real Claude Code in tmux; only the model reads from a script. */
import type { Model } from "../__tests__/support/model-server.ts";
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
  for (const { name, file, code } of PARTS) {
    model
      .whenPrompt(`You are ${name}, a builder`)
      .uses("Write", { file_path: `${root}/.overseer/worktrees/${name}/${file}`, content: `${code}\n` })
      .holds("the audience has seen them work")
      .uses("Bash", {
        command: `git add ${file} && git commit -qm "Add ${file}" && ${CLOSE(`${file} is there, and loads.`)}`,
      })
      .says("Done.");
  }
}

const began = performance.now();
const stage = new Stage(script);
try {
  chapter("1. A repository, and overseer in it");
  await stage.found({ "README.md": "# A shop\n" });
  await stage.type("init");

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
  await stage.until(
    "three builders have begun",
    (agents) => agents.filter(({ state }) => state === "working").length === 4,
  );
  await stage.until("each has written its file", () =>
    PARTS.every(({ name }) => stage.model.requests.filter(({ story }) => story?.includes(name)).length > 1),
  );
  await stage.type("status");

  chapter("4. Look over a shoulder, without disturbing");
  await stage.type("diff", "basket", "--stat");
  await stage.type("logs", "basket", "--lines", "4");

  chapter("5. They commit, close their tasks and are gone; the lead has waited for them, and finishes too");
  stage.model.release("the audience has seen them work");
  await stage.type("wait", "lena", ...NAMES, "--timeout", "60s");
  await stage.type("status");

  chapter("6. The lead's result is in your mail");
  await stage.type("mail", "check");

  chapter("7. Nothing of yours has moved: the work waits on its branches");
  await stage.type("worktree", "list");
  stage.model.verify();
  say(
    `\nThat took ${((performance.now() - began) / 1000).toFixed(0)} seconds. Everything is kept for a look: cd ${stage.root}`,
  );
  say(`What the agents were told and did is in .overseer/logs; remove ${stage.folder} when you are done.`);
} finally {
  await stage.end();
}
