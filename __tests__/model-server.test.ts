import { expect, test } from "bun:test";
import { type ClaudeOptions, claudeHome, runClaude, startClaude, transcriptOf } from "./support/claude.ts";
import { startModel } from "./support/model-server.ts";
import { type TempFolder, tempFolder, tempRepo } from "./support/temp.ts";
import { until } from "./support/until.ts";

type Hooks = Record<string, string>;

/** A repository, a claude home and a settings file whose hooks are small sh scripts. */
function workplace(hooks: Hooks = {}) {
  const repo = tempRepo();
  const folder = tempFolder();
  const home = claudeHome(`${folder.path}/home`, { trusted: [repo.path] });
  const settings = folder.write("settings.json", JSON.stringify(settingsWith(folder, hooks)));
  const remove = () => {
    repo.remove();
    folder.remove();
  };
  return { repo, home, settings, [Symbol.dispose]: remove };
}

function settingsWith(folder: TempFolder, hooks: Hooks) {
  const entries = Object.entries(hooks).map(([event, script]) => {
    const command = folder.write(`${event}.sh`, `#!/bin/sh\n${script}\n`, 0o755);
    return [event, [{ hooks: [{ type: "command", command }] }]];
  });
  const permissions = { defaultMode: "dontAsk", allow: ["Bash", "Agent"] };
  return { hooks: Object.fromEntries(entries), permissions };
}

type Workplace = ReturnType<typeof workplace>;

function asking(
  at: Workplace,
  model: ClaudeOptions["model"],
  prompt: string,
  ...args: string[]
): ClaudeOptions {
  return { home: at.home, model, cwd: at.repo.path, prompt, args: ["--settings", at.settings, ...args] };
}

const tellsOfMail = `cat > /dev/null
echo '{"hookSpecificOutput":{"hookEventName":"PostToolUse","additionalContext":"<mail from=ada>lunch?</mail>"}}'`;

test("a story uses Bash, sees its output and finishes with text", async () => {
  using at = workplace();
  await using model = startModel((story) => {
    story
      .whenPrompt("say hello")
      .expectsNot("hello from the shell")
      .uses("Bash", { command: "echo hello from the $(echo shell)" })
      .expects("hello from the shell", { times: 1 })
      .says("I said hello,\nand that is all.");
  });
  const result = await runClaude(asking(at, model, "Please say hello"));
  expect(result).toEqual({
    exitCode: 0,
    signal: null,
    timedOut: false,
    stdout: "I said hello,\nand that is all.\n",
    stderr: "",
  });
  expect(model.requests.map(({ story }) => story)).toEqual(['"say hello"', '"say hello"']);
  expect(model.requests[1]?.seen).toContain("hello from the shell");
  model.verify();
});

test("several tools of one answer all run, and its cost is what claude reports", async () => {
  using at = workplace();
  await using model = startModel((story) => {
    story
      .whenPrompt("do both")
      .says("Both at once.")
      .and("Bash", { command: "echo o$((1))ne" })
      .and("Bash", { command: "echo t$((2))wo" })
      .expects("o1ne")
      .expects(/t\dwo/)
      .says("both done")
      .costing({ input_tokens: 4321, output_tokens: 99 });
  });
  const result = await runClaude(asking(at, model, "do both", "--output-format", "json"));
  expect(JSON.parse(result.stdout)).toMatchObject({
    result: "both done",
    usage: { input_tokens: 4331, output_tokens: 104 },
  });
  model.verify();
});

test("unmet expectations, unmatched prompts, and stories that are over or untold are reported", async () => {
  using at = workplace();
  await using model = startModel((story) => {
    story
      .whenPrompt("say hello")
      .uses("Bash", { command: "echo secret" })
      .expects("<mail")
      .expectsNot("secret")
      .says("hi");
    story.whenPrompt("never asked").says("unheard");
    story.whenPrompt("perhaps asked").says("unheard").optional();
  });
  const id = crypto.randomUUID();
  await runClaude(asking(at, model, "say hello", "--session-id", id));
  await runClaude(asking(at, model, "and then?", "--resume", id));
  await runClaude(asking(at, model, "a stranger", "--session-id", id.replace(/^./, "0").replace(/.$/, "0")));
  expect(model.failures).toEqual([
    'story "say hello", turn 2: expected "<mail" at least once, found 0',
    'story "say hello", turn 2: expected "secret" 0 times, found 1',
    `story "say hello" was over, but session ${id} asked once more`,
    expect.stringMatching(/^no story matches session 0.*0, whose last prompt is: a stranger$/),
  ]);
  expect(() => model.verify()).toThrow('expected "<mail" at least once');
  expect(() => model.verify()).toThrow('story "never asked" never began');
  expect(() => model.verify()).not.toThrow("perhaps asked");
});

test("what a PostToolUse hook adds is shown to the model in the next request", async () => {
  using at = workplace({ PostToolUse: tellsOfMail });
  await using model = startModel((story) => {
    story
      .whenPrompt("work")
      .expectsNot("<mail")
      .uses("Bash", { command: "true" })
      .expects("<mail from=ada>lunch?</mail>", { times: 1 })
      .says("reading");
  });
  await runClaude(asking(at, model, "work"));
  model.verify();
});

test("the reason of a Stop hook begins a story of its own in the same conversation", async () => {
  using at = workplace({
    Stop: `grep -q '"stop_hook_active":true' || echo '{"decision":"block","reason":"unread mail: lunch?"}'`,
  });
  await using model = startModel((story) => {
    story.whenPrompt("work").uses("Bash", { command: "true" }).says("finished");
    story
      .whenPrompt("unread mail")
      .uses("Bash", { command: "echo y$((1))es" })
      .expects("y1es")
      .says("answered");
  });
  const result = await runClaude(asking(at, model, "work"));
  expect(result.stdout).toBe("answered\n");
  expect(new Set(model.requests.map(({ sessionId }) => sessionId)).size).toBe(1);
  model.verify();
});

test("a subagent has a story of its own, told between the turns of its parent", async () => {
  using at = workplace();
  await using model = startModel((story) => {
    story.whenPrompt("ask around").usesAgent("count the sheep").expects("42 sheep").says("there are 42");
    story
      .whenPrompt("count the sheep")
      .uses("Bash", { command: "echo $((6 * 7))" })
      .expects("42")
      .says("42 sheep");
  });
  const result = await runClaude(asking(at, model, "ask around"));
  expect(result.stdout).toBe("there are 42\n");
  expect(model.requests.map(({ story }) => story)).toEqual([
    '"ask around"',
    '"count the sheep"',
    '"count the sheep"',
    '"ask around"',
  ]);
  model.verify();
});

test("a claude killed while the model thinks goes on with the story when resumed", async () => {
  using at = workplace();
  await using model = startModel((story) => {
    story
      .whenPrompt("think hard")
      .uses("Bash", { command: "echo once >> log" })
      .holds("thinking")
      .expects("please go on")
      .uses("Bash", { command: "echo twice >> log" })
      .says("thought");
  });
  const id = crypto.randomUUID();
  const claude = startClaude(asking(at, model, "think hard", "--session-id", id));
  await model.untilHeld("thinking");
  await until("the transcript has the first tool's result", () =>
    transcriptOf(at.home, id).includes('"tool_result"'),
  );
  claude.kill("SIGKILL");
  expect(await claude.exited).toMatchObject({ exitCode: null, signal: "SIGKILL", timedOut: false });
  model.release("thinking");
  expect(() => model.verify()).toThrow(`story "think hard" was not finished by ${id}`);

  const resumed = await runClaude(asking(at, model, "please go on", "--resume", id));
  expect(resumed.stdout).toBe("thought\n");
  expect(await Bun.file(`${at.repo.path}/log`).text()).toBe("once\ntwice\n");
  model.verify();
});

test("a rate limit ends the turn with an error, and the resumed story goes on behind it", async () => {
  using at = workplace();
  await using model = startModel((story) => {
    story
      .whenPrompt("hurry")
      .uses("Bash", { command: "true" })
      .fails(429, "you are too fast")
      .expects("again")
      .says("slowly now");
  });
  const id = crypto.randomUUID();
  const limited = await runClaude(asking(at, model, "hurry", "--session-id", id));
  expect(limited.exitCode).toBe(1);
  expect(limited.stdout).toContain("you are too fast");
  expect(model.requests).toHaveLength(2);

  const resumed = await runClaude(asking(at, model, "again", "--resume", id));
  expect(resumed.stdout).toBe("slowly now\n");
  model.verify();
});

test("several claudes tell different stories of one model at once", async () => {
  using at = workplace();
  const names = ["ada", "bob", "cleo"];
  await using model = startModel((story) => {
    for (const name of names) {
      story
        .whenPrompt(`you are ${name}`)
        .uses("Bash", { command: `echo ${name} $((1))` })
        .expects(`${name} 1`)
        .says(name);
    }
  });
  const results = await Promise.all(names.map((name) => runClaude(asking(at, model, `you are ${name}`))));
  expect(results.map(({ stdout }) => stdout)).toEqual(names.map((name) => `${name}\n`));
  model.verify();
});

test("a claude past its deadline is ended, and the result says so", async () => {
  using at = workplace();
  await using model = startModel((story) => {
    story.whenPrompt("think for ever").holds("for ever").says("never heard").optional();
  });
  const claude = startClaude({ ...asking(at, model, "think for ever"), deadlineMs: 1_500 });
  expect(await claude.exited).toMatchObject({ timedOut: true });
  expect(() => process.kill(claude.pid, 0)).toThrow("ESRCH");
});

test("waiting in vain says for what", async () => {
  const waiting = until("pigs fly", () => false, { timeoutMs: 30, everyMs: 5 });
  await expect(waiting).rejects.toThrow("until pigs fly");
});
