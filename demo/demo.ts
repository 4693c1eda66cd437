/**
 * `npm run demo`: what overseer does so far, with real files, real databases and the real hooks. The agents are plain
 * processes that fire the hooks as Claude Code does; no account and no model is needed.
 */
import { chapter, quote, Stage, say } from "./stage.ts";

const stage = new Stage();
try {
  chapter("1. A repository, and overseer in it");
  quote(stage.overseer(["init"]));

  chapter("2. Two pieces of work, the second waiting for the first");
  const login = stage.overseer([
    "task",
    "create",
    "Add a login form",
    "--files",
    "src/login",
    "--priority",
    "high",
  ]);
  const loginId = login.split(" ")[0] ?? "";
  const review = stage.overseer(["task", "create", "Review the login form", "--depends", loginId]);
  quote(login + review);

  chapter("3. Ada, a builder, begins: her first hook tells her who she is and what to do");
  const ada = stage.enter(
    "ada",
    "worker",
    await stage.register({ name: "ada", capability: "builder", taskId: loginId, fileScope: ["src/login"] }),
  );
  quote(await ada.hook("SessionStart", { source: "startup" }));
  await ada.hook("UserPromptSubmit", { prompt: "Begin." });

  chapter("4. Ada has a question and asks the orchestrator; then her turn ends");
  const ask = [
    "mail",
    "send",
    "--to",
    "orchestrator",
    "--subject",
    "Which fields?",
    "--body",
    "E-mail or user name?",
  ];
  quote(stage.overseer([...ask, "--type", "question"], ada));
  await ada.hook("Stop", { last_assistant_message: "I have asked which fields are wanted." });
  quote(stage.overseer(["status"]));

  chapter("5. The orchestrator's next prompt shows the question by itself, and it answers");
  const orchestrator = stage.enter("orchestrator", "orchestrator");
  await orchestrator.hook("SessionStart", { source: "startup" });
  const question = await orchestrator.hook("UserPromptSubmit", { prompt: "How is it going?" });
  quote(question);
  await ada.hook("UserPromptSubmit", { prompt: "Begin with the layout meanwhile." });
  const messageId = /id="(msg-[^"]+)"/.exec(question)?.[1] ?? "";
  quote(
    stage.overseer(["mail", "reply", messageId, "--body", "E-mail.", "--priority", "high"], "orchestrator"),
  );

  chapter("6. Ada is busy; the answer has high priority, so she sees it right after her next tool call");
  const call = { tool_name: "Bash", tool_input: { command: "npm test" }, tool_use_id: "toolu_1" };
  await ada.hook("PreToolUse", call);
  quote(await ada.hook("PostToolUse", { ...call, tool_response: { stdout: "12 passed" }, duration_ms: 840 }));

  chapter("7. Bob is killed the moment his mail was printed. Printed is not read: he gets it again");
  const bobEnv = await stage.register({ name: "bob", capability: "reviewer" });
  stage.overseer([
    "mail",
    "send",
    "--to",
    "bob",
    "--subject",
    "Review",
    "--body",
    "Please look at src/login.",
  ]);
  const bob = stage.enter("bob", "worker", bobEnv);
  await bob.hook("SessionStart", { source: "startup" });
  quote(await bob.hook("UserPromptSubmit", { prompt: "Begin." }));
  bob.kill();
  say("kill -9. A new process resumes him:");
  const bobAgain = stage.enter("bob", "worker", bobEnv);
  await bobAgain.hook("SessionStart", { source: "resume" });
  quote(await bobAgain.hook("UserPromptSubmit", { prompt: "Go on." }));
  await bobAgain.hook("Stop");

  chapter("8. Ada finishes; what waited for her is ready");
  quote(stage.overseer(["task", "close", loginId, "--reason", "The form is there, with tests."], ada));
  await ada.hook("Stop", { last_assistant_message: "Done." });
  quote(stage.overseer(["status"]));

  chapter("9. Nothing is forgotten");
  quote(stage.overseer(["events", "--type", "mail"]));
  say(
    `\nEverything is in ${stage.root}/.overseer, for a look; remove ${stage.root.replace(/\/shop$/, "")} when you are done.`,
  );
} finally {
  stage.end();
}
