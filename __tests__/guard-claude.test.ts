import { expect, test } from "bun:test";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { startFleet } from "./support/fleet.ts";
import { tempFolder, tempRepo } from "./support/temp.ts";

const FILES = {
  "README.md": "# test\n",
  "src/login/form.ts": "export {};\n",
  "src/api.ts": "export {};\n",
  "docs/a.md": "a\n",
};

test("the model is told why a write is denied, and the file stays as it was", async () => {
  using outside = tempFolder();
  const secret = outside.write("outside.txt", "as it was\n");
  const repo = tempRepo({ files: FILES });
  const tree = join(repo.path, ".overseer/worktrees/ada");
  const write = (path: string) => ({ file_path: path, content: "changed\n" });
  const edit = (path: string, from: string) => ({ file_path: path, old_string: from, new_string: "changed" });
  const [overlay, rules] = [`${tree}/.claude/CLAUDE.md`, `${repo.path}/.overseer/agents/ada/guard.json`];
  await using fleet = await startFleet({
    repo,
    tell(model) {
      const ada = model.whenPrompt("You are ada");
      ada.uses("Bash", { command: `ln -s ${secret} src/login/link.txt` });
      // Claude Code itself refuses to change a file that was not read.
      const read = [
        `${tree}/src/login/link.txt`,
        `${repo.path}/README.md`,
        overlay,
        rules,
        `${tree}/src/api.ts`,
      ];
      for (const file of read) ada.uses("Read", { file_path: file });
      ada
        .uses("Write", write(`${tree}/src/login/link.txt`))
        .expects(`overseer: ${secret} is outside of your worktree ${tree}`)
        .uses("Write", write(`${tree}/../../../README.md`))
        .expects(
          `README.md is in the main checkout, which is not yours. Your copy is ${tree}/README.md: change that one`,
        )
        .uses("Edit", edit(overlay, "This file was made by overseer"))
        .uses("Write", write(`${tree}/.claude/.gitignore`))
        .expects("holds your orders and is overseer's", { times: 2 })
        .uses("Edit", edit(rules, '"isReadOnly":false'))
        .uses("Write", write(`${tree}/.git`))
        .expects("is overseer's or git's own", { times: 2 })
        .uses("Write", write(`${tree}/src/api.ts`))
        .expects(
          /src\/api\.ts is not among your files \(src\/login, docs\/\*\.md\).*--to human --type question/s,
        )
        .uses("Write", write(`${tree}/src/login/new.ts`))
        .uses("Write", write(`${tree}/docs/new.md`))
        .expects("overseer: ", { times: 7 })
        .says("Done.");
      // A tool that its role does not have is not even there; the guard has the same answer for whoever has it.
      model
        .whenPrompt("You are sue")
        .uses("Write", write(join(repo.path, ".overseer/worktrees/sue/notes.md")))
        .expects("Write is disabled for this session")
        .uses("Bash", { command: "git add -A && git commit -m x" })
        .expects("You are a scout: you do not git add. Describe what you would change in your report instead")
        .says("Done.");
    },
  });
  await fleet.sling("ada", "Write here and there", "--files", "src/login,docs/*.md");
  await fleet.sling("sue", "Look around", "--capability", "scout");
  for (const name of ["ada", "sue"]) await fleet.untilState(name, "idle");
  fleet.model.verify();
  expect(readFileSync(secret, "utf8")).toBe("as it was\n");
  expect(repo.git("status", "--porcelain", "--untracked-files=no")).toBe("");
  expect(fleet.gitIn("ada", "status", "--porcelain").split("\n").toSorted()).toEqual([
    "?? docs/new.md",
    "?? src/login/link.txt",
    "?? src/login/new.ts",
  ]);
  expect(fleet.gitIn("sue", "status", "--porcelain")).toBe("");
  const events = await fleet.overseer(["events", "--type", "guard.denied", "--json"]);
  const { events: denied } = events.data<{ events: { agent: string; data: { rule: string } }[] }>();
  expect(denied.filter(({ agent }) => agent === "ada").map(({ data }) => data.rule)).toEqual(
    expect.arrayContaining(["outside", "overseer", "scope"]),
  );
  expect((await fleet.overseer(["logs", "ada"])).stdout).toContain('denied rule="scope" tool="Write"');
});

const PUSHES = [
  "git push",
  "git -C . push",
  'git commit --allow-empty -m "x" && git push',
  "env X=1 git push",
  "bash -c 'git push'",
  "$(git push)",
];

test("no push of a worker reaches a remote, whether or not the guard sees it, and fetch works", async () => {
  using outside = tempFolder();
  const [bare, apart, rewritten] = ["bare.git", "apart.git", "rewritten.git"].map((name) =>
    join(outside.path, name),
  );
  if (!bare || !apart || !rewritten) throw new Error("there are three remotes");
  // The guard is there also where the repository wants no hooks.
  const repo = tempRepo({ files: { ...FILES, ".claude/settings.json": '{"disableAllHooks": true}' } });
  for (const folder of [bare, apart, rewritten]) {
    mkdirSync(folder);
    repo.git("init", "--quiet", "--bare", folder);
    repo.git("push", "--quiet", folder, "main");
  }
  // One address for both, one for pushes alone, and one that the user's own rewriting leads elsewhere for pushes.
  repo.git("remote", "add", "origin", bare);
  repo.git("config", "remote.origin.pushurl", bare);
  repo.git("remote", "add", "second", bare);
  repo.git("config", "remote.second.pushurl", apart);
  repo.git("remote", "add", "third", "there:/rewritten.git");
  repo.git("config", `url.${outside.path}/.pushInsteadOf`, "there:/");
  const refs = () => [bare, apart, rewritten].map((folder) => repo.git("-C", folder, "for-each-ref"));
  const script = `git commit -q --allow-empty -m work
git fetch origin && echo origin fetched
git fetch second && echo second fetched
for to in origin second third ${bare} file://${apart}; do git push $to HEAD:refs/heads/stolen || echo "no push to $to"; done`;
  await using fleet = await startFleet({
    repo,
    tell(model) {
      const ada = model.whenPrompt("You are ada");
      for (const command of PUSHES) ada.uses("Bash", { command });
      ada
        .expects("overseer: A worker does not push. Commit to your branch", { times: PUSHES.length })
        .uses("Bash", { command: `cat > go.sh <<'END'\n${script}\nEND\nsh go.sh` })
        .expects("origin fetched")
        .expects("second fetched");
      for (const to of ["origin", "second", "third", bare, `file://${apart}`])
        ada.expects(`no push to ${to}`);
      ada.expects("overseer: a worker does not push. Commit to your branch", { times: 5 }).says("Done.");
    },
  });
  const before = refs();
  await fleet.sling("ada", "Push it somewhere");
  await fleet.untilState("ada", "idle");
  fleet.model.verify();
  expect(refs()).toEqual(before);
  expect(fleet.gitIn("ada", "log", "--format=%s", "main..HEAD")).toBe("work");
  // It is the worker's environment that stops it: the person's own checkout pushes as ever.
  repo.git("push", "--quiet", "third", "main:refs/heads/mine");
  expect(refs()).not.toEqual(before);
});
