import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { HOOK_EVENTS, type HookEvent } from "../src/domain/hook-event.ts";
import { filesBelow } from "../src/effects/files.ts";
import { type TestProject, testProject } from "./support/project.ts";

interface Secret {
  /** As it stands in a text. */
  text: string;
  /** What must not be found anywhere; the text itself if not given. */
  core: string;
}

/** Joined here, so that no scanner takes this file for a leak. */
const token = (...parts: string[]): Secret => ({ text: parts.join(""), core: parts.join("") });
const around = (before: string, core: string, after = ""): Secret => ({
  text: `${before}${core}${after}`,
  core,
});

const BODY = "Zq7Xw2Lm9Rt4Kp8Vb3Nc6Hd1";
const PEM = Array.from({ length: 20 }, (_, n) => `MIIE${n}${BODY}${BODY}`);
const pem = (kind: string) =>
  around(`-----BEGIN ${kind}PRIVATE `, `KEY-----\n${PEM.join("\n")}\n-----END ${kind}PRIVATE KEY`, "-----");

const TOKENS: Record<string, Secret> = {
  anthropic: token("sk-", "ant-api03-", BODY, "_-", BODY, "AA"),
  openai: token("sk-", "proj-", BODY, BODY),
  "openai, the old form": token("sk-", BODY, BODY),
  "github, classic": token("gh", "p_", BODY, "0123456789ab"),
  "github, oauth": token("gh", "o_", BODY, "0123456789ab"),
  "github, server": token("gh", "s_", BODY, "0123456789ab"),
  "github, fine-grained": token("github", "_pat_", "11ABCDEFG0", BODY, "_", BODY, BODY),
  aws: token("AK", "IA", "IOSFODNN7EXAMPLQ"),
  "aws, temporary": token("AS", "IA", "IOSFODNN7EXAMPLR"),
  slack: token("xo", "xb-", "123456789012-1234567890123-", BODY),
  "slack, user": token("xo", "xp-", "123456789012-", BODY),
  "slack, webhook": token("https://hooks.sla", "ck.com/services/T00000000/B00000000/", BODY),
  google: token("AI", "za", "SyD-", BODY, "_9876543"),
  "google, oauth": token("ya", "29.", "a0AfH6SM", BODY),
  "a JWT": token("ey", "JhbGciOiJIUzI1NiJ9.", "eyJzdWIiOiIxMjM0NTY3ODkwIn0.", BODY),
  bearer: around("Authorization: Bearer ", `br-${BODY}`),
  "a private key": pem(""),
  "an RSA private key": pem("RSA "),
  "an OpenSSH private key": pem("OPENSSH "),
};

const ASSIGNMENTS: Record<string, Secret> = {
  "*_KEY=": around("export STRIPE_KEY=", `k1${BODY}`),
  "*_KEY= in quotes": around('STRIPE_KEY="', `k2 ${BODY}`, '"'),
  "*_TOKEN=": around("NPM_TOKEN=", `t1${BODY}`, " npm publish"),
  "*_TOKEN: in YAML": around("deploy_token: ", `t2${BODY}`, "\n"),
  "*_TOKEN in JSON": around('{"api_token":"', `t3${BODY}`, '"}'),
  "password=": around("psql 'host=db password=", `p1${BODY}`, "'"),
  "password: in JSON": around('{"password": "', `p2 ${BODY}`, '"}'),
  "--password": around("mysql --password ", `p3${BODY}`),
  "PGPASSWORD=": around("PGPASSWORD=", `p4${BODY}`, " psql"),
  "a password in a URL": around("postgres://app:", `p5${BODY}`, "@db.internal/app"),
};

/** Every file below .overseer, byte by byte: the databases, their write-ahead logs, the logs. */
function filesWith(at: TestProject, text: string): string[] {
  const needle = Buffer.from(text);
  // In a JSON line a newline is written as two characters.
  const escaped = Buffer.from(JSON.stringify(text).slice(1, -1));
  return filesBelow(at.paths.home).filter((name) => {
    const content = readFileSync(join(at.paths.home, name));
    return content.includes(needle) || content.includes(escaped);
  });
}

/** A private key is long: no line of it may stay. */
function leaks(at: TestProject, { core }: Secret): string[] {
  return core.split("\n").flatMap((line) => (line.length > 16 ? filesWith(at, line) : []));
}

const TOOL_EVENTS: readonly HookEvent[] = ["PreToolUse", "PostToolUse", "PostToolUseFailure"];

/** Every field that overseer looks at, in every form in which Claude Code may give it. */
function payloads(event: HookEvent, said: string): Record<string, unknown>[] {
  const spoken = { message: said, last_assistant_message: said, reason: said, source: said, error: said };
  if (!TOOL_EVENTS.includes(event)) return [spoken];
  const file = { file_path: `/${said}`, content: said, [said]: 1 };
  return [
    { tool_name: "Bash", tool_input: { command: said }, tool_response: { stdout: said }, error: said },
    { tool_name: said, tool_input: { edits: [{ new_string: said }] }, tool_response: said, error: { said } },
    {
      tool_name: "Write",
      tool_input: file,
      tool_response: { deep: [said] },
      error_details: said,
      agent_id: said,
    },
  ];
}

test.each(Object.entries({ ...TOKENS, ...ASSIGNMENTS }))(
  "no hook event leaves behind: %s",
  async (_, secret) => {
    await using at = await testProject();
    const ada = await at.worker("ada");
    const claude = at.claude(ada);
    const mark = "harmless-text";
    const fired = HOOK_EVENTS.flatMap((event) =>
      payloads(event, `${mark} ${secret.text}`).map((payload) => claude.fire(event, payload)),
    );
    await Promise.all([...fired, at.claude(null).fire("StopFailure", { error: secret.text })]);
    expect(leaks(at, secret)).toEqual([]);
    const logs = ["events.ndjson", "session.log", "tools.ndjson", "errors.log"];
    const marked = logs.map((name) => `logs/${ada.session.logFolder}/${name}`);
    expect(filesWith(at, mark)).toEqual(expect.arrayContaining(marked));
    expect(at.log("errors.log")).toEqual([]);
  },
);

test("overseer's own error log is no place for secrets either", async () => {
  await using at = await testProject();
  const slack = TOKENS.slack?.core ?? "";
  await at.claude(await at.worker("ada")).fireRaw(slack, "{}");
  expect(at.log("errors.log")).toEqual([expect.stringContaining("unknown hook event")]);
  expect(filesWith(at, slack.slice(0, 20))).toEqual([]);
});

test("what the keys of a tool's input call a secret is not kept", async () => {
  await using at = await testProject();
  const claude = at.claude(await at.worker("ada"));
  const keys = ["api_key", "apiKey", "x-api-key", "AUTH_TOKEN", "token", "secret", "password", "db_passwd"];
  const tool_input = Object.fromEntries(keys.map((key) => [key, `value-of-${key}`]));
  await claude.fire("PreToolUse", {
    tool_name: "mcp__vault__put",
    tool_input: { ...tool_input, entry: { ...tool_input } },
  });
  for (const key of keys) expect(filesWith(at, `value-of-${key}`)).toEqual([]);
  expect(filesWith(at, "mcp__vault__put").length).toBeGreaterThan(1);
});

test("git options with a secret in them are not kept as git operations", async () => {
  await using at = await testProject();
  const claude = at.claude(await at.worker("ada"));
  const github = TOKENS["github, classic"]?.core ?? "";
  for (const option of [
    `url.https://x:${github}@h/.insteadOf=https://h/`,
    `x.password=hunter2-${BODY}`,
    github,
  ]) {
    await claude.fire("PreToolUse", { tool_name: "Bash", tool_input: { command: `git -c ${option} fetch` } });
  }
  expect(filesWith(at, github.slice(0, 16))).toEqual([]);
  expect(filesWith(at, "hunter2")).toEqual([]);
});

test("a secret that shortening cuts in two leaves neither half behind", async () => {
  await using at = await testProject();
  const claude = at.claude(await at.worker("ada"));
  const cut = [
    `DB_PASSWORD="zzopen zzsesame ${BODY} ${BODY} ${BODY}"`,
    `DB_PASSWORD='zzopen zzsesame ${BODY} ${BODY} ${BODY}'`,
    TOKENS.openai?.core ?? "",
    TOKENS.aws?.core ?? "",
  ];
  // Of an output only the first 2,000 characters are looked at; what is redacted makes room for what follows it.
  const long = `-----BEGIN PRIVATE ${"KEY"}-----\n${"M".repeat(1_850)}\n-----END PRIVATE ${"KEY"}-----\n`;
  const outputs = cut.flatMap((secret) =>
    Array.from({ length: 12 }, (_, n) => `${long.padEnd(1_910 + 8 * n)}${secret}${" and more".repeat(20)}`),
  );
  await Promise.all(
    outputs.map((tool_response) => claude.fire("PostToolUse", { tool_name: "Bash", tool_response })),
  );
  expect(filesWith(at, "[redacted]").length).toBeGreaterThan(1);
  for (const half of ["zzopen", "zzsesame", cut[2]?.slice(0, 12), cut[3]?.slice(0, 8)]) {
    expect(filesWith(at, half ?? "")).toEqual([]);
  }
});

test("mail and tasks lose what has the shape of a token, and keep their code", async () => {
  await using at = await testProject();
  const ada = await at.worker("ada");
  const secrets = Object.values(TOKENS);
  const code = 'const password = readLine("password: "); const api_key = env.API_KEY;';
  const body = `${code}\n${secrets.map(({ text }) => text).join("\n")}\n`;
  const first = secrets[0]?.text ?? "";
  const ok = async (...args: string[]) => {
    const ran = await at.overseer([...args, "--json"], { input: body });
    expect(ran).toMatchObject({ exitCode: 0, stderr: "" });
    return JSON.parse(ran.stdout).data;
  };
  const sent = await ok("mail", "send", "--to", "ada", "--subject", `see ${first}`, "--body", "-");
  await ok("mail", "reply", sent.messages[0].id, "--body", "-");
  const { task } = await ok("task", "create", `use ${first}`, "--body", "-");
  await ok("task", "close", task.id, "--reason", `with ${first}`);
  const shown = await at.claude(ada).fire("UserPromptSubmit");
  expect(shown.stdout).toContain(code);
  for (const secret of secrets) {
    expect(leaks(at, secret)).toEqual([]);
    expect(shown.stdout).not.toContain(secret.core);
  }
  expect(filesWith(at, code).length).toBeGreaterThan(1);
});
