import { expect, test } from "bun:test";
import { join } from "node:path";
import type { AgentView, Fleet } from "./support/fleet.ts";
import { CLOSE_TASK, completedWorker, standInFleet } from "./support/stand-in-claude.ts";
import { until } from "./support/until.ts";

const COMMIT = "git add -A && git commit -qm work";

async function mailTo(fleet: Fleet, name: string) {
  const answer = await fleet.overseer(["mail", "list", "--to", name, "--json"]);
  return answer.data<{ messages: { subject: string; body: string; priority: string }[] }>().messages;
}

function entriesOf(fleet: Fleet, { taskId }: AgentView) {
  return fleet.open((project) => project.ledger.mergeEntries({ taskId }));
}

test("a branch with files outside of its scope is held, told of, and handed in anew", async () => {
  await using fleet = await standInFleet();
  // After the close, so that it slips through.
  const slip = `mkdir -p src && echo 1 > src/a.ts && ${COMMIT} && ${CLOSE_TASK} && echo 2 > other.ts && ${COMMIT}; true ||`;
  const ada = await completedWorker(fleet, "ada", slip, "--files", "src");
  expect(await entriesOf(fleet, ada)).toMatchObject([
    {
      status: "held",
      error: "outside of its files (src) it changes other.ts",
      files: ["other.ts", "src/a.ts"],
    },
  ]);

  const [mail] = await mailTo(fleet, "human");
  expect(mail).toMatchObject({
    subject: `ada has finished ${ada.taskId}, and its branch is held`,
    priority: "high",
  });
  expect(mail?.body).toContain(
    "is held and will not be merged: outside of its files (src) it changes other.ts",
  );
  expect(mail?.body).toContain("overseer diff ada");
  expect(mail?.body).toContain("overseer resume ada");

  const status = await fleet.overseer(["status"]);
  expect(status.stdout).toContain("1 held; why held: overseer events --type merge.held");
  const json = (await fleet.overseer(["status", "--json"])).data<{ merge: Record<string, number> }>();
  expect(json.merge).toMatchObject({ pending: 0, held: 1 });
  expect((await fleet.overseer(["events", "--type", "merge.held"])).stdout).toContain("it changes other.ts");
  expect((await fleet.overseer(["inspect", "ada"])).stdout).toContain("held: outside of its files");

  // Everybody who died is resumed after a reboot, but not one that is done.
  const all = await fleet.overseer(["resume", "--all", "--json"]);
  expect(all.data<{ agents: unknown[] }>().agents).toEqual([]);
  const mend = `git rm -q other.ts && git commit -qm mend && ${CLOSE_TASK}`;
  const resumed = await fleet.overseer(["resume", "ada", "--json"], { env: { STAND_IN_DOES: mend } });
  expect(resumed.exitCode).toBe(0);
  const isReplaced = async () => (await entriesOf(fleet, ada)).length === 2;
  await until("it is handed in again", isReplaced, { timeoutMs: 30_000 });
  expect((await entriesOf(fleet, ada)).map(({ status, error }) => [status, error])).toEqual([
    ["pending", null],
    ["aborted", "outside of its files (src) it changes other.ts"],
  ]);
  const again = await fleet.overseer(["resume", "ada", "--json"]);
  expect(again.error()).toMatchObject({ code: "still_alive" });
});

test("closing names what is outside, and what came from the canonical branch is not the worker's", async () => {
  await using fleet = await standInFleet();
  const said = join(fleet.root, "said.txt");
  const early = `echo 2 > other.ts && ${COMMIT} && (${CLOSE_TASK} --json > '${said}' || true)`;
  const mended = `git rm -q other.ts && mkdir src && echo 1 > src/a.ts && ${COMMIT} && git merge -q --no-edit main`;
  const main = `git -C '${fleet.root}' commit -q --allow-empty -m more && echo x > '${fleet.root}/more.txt' && git -C '${fleet.root}' add more.txt && git -C '${fleet.root}' commit -qm more`;
  const ada = await completedWorker(fleet, "ada", [early, main, mended].join("\n"), "--files", "src");
  const refused = JSON.parse(await Bun.file(said).text());
  expect(refused.error).toMatchObject({
    code: "scope_outside",
    message: "outside of its files (src) it changes other.ts",
    hint: expect.stringMatching(/^take them out \(git checkout [0-9a-f]{10} -- FILE.*ask human$/),
  });
  expect(await entriesOf(fleet, ada)).toMatchObject([
    { status: "pending", error: null, files: ["src/a.ts"] },
  ]);
});

test("of whoever only reads, every change is held", async () => {
  await using fleet = await standInFleet();
  const slip = `(echo 1 > a.ts && ${COMMIT} && ${CLOSE_TASK} --json > '${fleet.root}/said.txt' || true); git reset -q --hard HEAD~1; ${CLOSE_TASK}; echo 1 > b.ts && ${COMMIT}; true ||`;
  const sue = await completedWorker(fleet, "sue", slip, "--capability", "scout");
  const refused = JSON.parse(await Bun.file(join(fleet.root, "said.txt")).text());
  expect(refused.error).toMatchObject({
    code: "scope_outside",
    hint: expect.stringContaining("git reset --hard"),
  });
  expect(await entriesOf(fleet, sue)).toMatchObject([
    { status: "held", error: "a scout changes nothing, but its branch has changes in b.ts" },
  ]);
});
