import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

/** Keeps the tester's own git configuration (signing, hooks, templates) out of every repository a test makes. */
export const gitIsolation = {
  GIT_CONFIG_GLOBAL: "/dev/null",
  GIT_CONFIG_SYSTEM: "/dev/null",
  GIT_TERMINAL_PROMPT: "0",
} as const;

export interface TempFolder extends Disposable {
  readonly path: string;
  /** Writes a file, making its folders, and returns its absolute path. */
  write(name: string, content: string, mode?: number): string;
  /** For folders that outlive one block; `using` calls it by itself. */
  remove(): void;
}

export interface TempRepo extends TempFolder {
  /** Runs git in the repository and returns its trimmed stdout; a failure throws with git's own words. */
  git(...args: string[]): string;
}

export interface TempRepoOptions {
  files?: Record<string, string>;
  branch?: string;
}

/** `using folder = tempFolder();` removes it when the block ends. */
export function tempFolder(prefix = "overseer-test-"): TempFolder {
  // Resolved, because git and claude report resolved paths and tests compare with them.
  const path = realpathSync(mkdtempSync(join(tmpdir(), prefix)));
  // A process that was just killed may still have a last file to write: hence the retries.
  const remove = () => rmSync(path, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 });
  return {
    path,
    remove,
    [Symbol.dispose]: remove,
    write(name, content, mode = 0o644) {
      const file = join(path, name);
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, content, { mode });
      return file;
    },
  };
}

/** A real repository with one commit, whose author is set in the repository itself. */
export function tempRepo({
  files = { "README.md": "# test\n" },
  branch = "main",
}: TempRepoOptions = {}): TempRepo {
  const folder = tempFolder("overseer-repo-");
  const git = (...args: string[]) => runGit(folder.path, args);
  git("init", "--quiet", `--initial-branch=${branch}`);
  git("config", "user.name", "Test");
  git("config", "user.email", "test@example.invalid");
  for (const [name, content] of Object.entries(files)) folder.write(name, content);
  git("add", "--all");
  git("commit", "--quiet", "--allow-empty", "--message", "first");
  return { ...folder, git };
}

function runGit(cwd: string, args: string[]): string {
  const { exitCode, stdout, stderr } = Bun.spawnSync(["git", ...args], { cwd, env: gitEnvironment() });
  if (exitCode !== 0) throw new Error(`git ${args.join(" ")} failed in ${cwd}: ${stderr.toString().trim()}`);
  return stdout.toString().trim();
}

function gitEnvironment(): Record<string, string | undefined> {
  // A test started from a git hook inherits GIT_DIR, and every git call would hit that repository instead.
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith("GIT_"));
  return { ...Object.fromEntries(inherited), ...gitIsolation };
}
