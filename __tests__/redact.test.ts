import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { HOOK_EVENTS, interpret } from "../src/domain/hook-event.ts";
import { readPayload } from "../src/domain/hook-payload.ts";
import { neutralise } from "../src/domain/mail.ts";
import { cleanText, cleanValue, redact, redactTokens } from "../src/domain/redact.ts";

/** Made up, and put together here so that no scanner takes this file for a leak. */
const join = (...parts: string[]) => parts.join("");
const PEM_BODY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nq1w2e3r4t5y6u7i8o9p0";
const pem = (kind: string, body = PEM_BODY) =>
  join("-----BEGIN ", kind, "PRIVATE KEY-----\n", body, "\n-----END ", kind, "PRIVATE KEY-----");

/** What has the shape of a token: the whole, and the part that must not be seen again. */
const TOKENS: [kind: string, whole: string, secret: string][] = [
  ["Anthropic", join("sk-", "ant-api03-AbC_d-9xYz0123456789"), "AbC_d-9xYz0123456789"],
  ["Anthropic OAuth", join("sk-", "ant-oat01-qwertyuiop"), "qwertyuiop"],
  ["OpenAI", join("sk-", "abcdefghijklmnopqrstuvwx"), "abcdefghijklmnopqrstuvwx"],
  ["OpenAI project", join("sk-", "proj-A1b2C3d4E5f6G7h8_-I9"), "A1b2C3d4E5f6G7h8_-I9"],
  ["GitHub", join("gh", "p_aB3dE6gH9jK2mN5pQ8sT1vW4yZ7aB3dE6gH9"), "aB3dE6gH9jK2mN5pQ8sT"],
  ["GitHub app", join("gh", "s_aB3dE6gH9jK2mN5pQ8sT"), "aB3dE6gH9jK2mN5pQ8sT"],
  ["GitHub fine-grained", join("github", "_pat_11ABCDEFG0abcdef_ghijkl"), "11ABCDEFG0abcdef_ghijkl"],
  ["AWS", join("AK", "IAIOSFODNN7EXAMPLE"), "IOSFODNN7EXAMPLE"],
  ["AWS session", join("AS", "IAIOSFODNN7EXAMPLE"), "IOSFODNN7EXAMPLE"],
  ["Slack", join("xo", "xb-123456789012-abcdefABCDEF"), "123456789012-abcdefABCDEF"],
  ["Slack app", join("xa", "pp-1-A0123456789-abcdef"), "A0123456789-abcdef"],
  ["Slack hook", join("https://hooks.", "slack.com/services/T000/B000/XXXyyyZZZ"), "T000/B000/XXXyyyZZZ"],
  ["Google", join("AI", "zaSyA1234567890abcdefghijklmnopqrstu"), "SyA1234567890abcdefghij"],
  ["Google OAuth", join("ya", "29.a0AfH6SMBxyz-1234567890"), "a0AfH6SMBxyz-1234567890"],
  ["JWT", join("ey", "JhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.s1gn4tur3"), "s1gn4tur3"],
  ["bearer", join("Bear", "er aB3dE6gH9jK2.mN5pQ8~sT"), "aB3dE6gH9jK2.mN5pQ8~sT"],
  ["bearer of plain letters", join("Authorization: bear", "er abcdefghijkl"), "abcdefghijkl"],
  ["basic", join("Authorization: Bas", "ic dXNlcjpwYXNz"), "dXNlcjpwYXNz"],
  ["private key", pem(""), "q1w2e3r4t5y6u7i8o9p0"],
  ["RSA private key", pem("RSA "), "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC"],
  ["OpenSSH private key", pem("OPENSSH "), "q1w2e3r4t5y6u7i8o9p0"],
];

/** Where a token may stand. */
const SURROUNDINGS: [where: string, put: (token: string) => string][] = [
  ["alone", (s) => s],
  ["in a sentence", (s) => `the key is ${s}, keep it.`],
  ["in double quotes", (s) => `x = "${s}"`],
  ["in single quotes", (s) => `x = '${s}'`],
  ["in a code span", (s) => `use \`${s}\` here`],
  ["in brackets", (s) => `f(${s}) [${s}] {${s}}`],
  ["in JSON", (s) => JSON.stringify({ a: s, list: [s] })],
  ["in JSON in JSON", (s) => JSON.stringify({ a: JSON.stringify({ b: s }) })],
  ["on a line of its own", (s) => `first\n${s}\nlast`],
  ["after an escaped line break", (s) => JSON.stringify(`first\n${s}\nlast`)],
  ["after an escaped tab", (s) => JSON.stringify(`first\t${s}`)],
  ["in colour", (s) => `\u001b[1;31m${s}\u001b[0m`],
  ["in a URL", (s) => `https://example.com/?x=%20${s}&y=1#z`],
  ["after an equals sign or a colon", (s) => `a=${s} b:${s}`],
];

describe.each(TOKENS)("a secret of kind %s", (_kind, whole, secret) => {
  test.each(SURROUNDINGS)("does not survive %s", (_where, put) => {
    const text = put(whole);
    for (const clean of [redactTokens(text), redact(text)]) {
      expect(clean).not.toContain(secret);
      expect(clean).toContain("[redacted]");
    }
  });
});

const VALUE = "hunter2-Correct.Horse";
const SPACED = "correct horse battery staple";
/** What only its name gives away; mail may quote such code, logs may not. */
const ASSIGNMENTS: [text: string, secret: string][] = [
  [`export STRIPE_KEY=${VALUE}`, VALUE],
  [`STRIPE_KEY=${VALUE};echo done`, VALUE],
  [`NPM_TOKEN="${SPACED}" npm publish`, SPACED],
  [`NPM_TOKEN='${SPACED}'`, SPACED],
  [`npm_token = \`${SPACED}\``, SPACED],
  [`password=${VALUE}`, VALUE],
  [`PASSWORD: ${VALUE}`, VALUE],
  [`db_password => '${SPACED}'`, SPACED],
  [`pgpasswd=${VALUE}`, VALUE],
  [`aws_secret_access_key = ${VALUE}`, VALUE],
  [`accessToken: "${SPACED}"`, SPACED],
  [`apiKey="${SPACED}"`, SPACED],
  [`client-secret: ${VALUE}`, VALUE],
  [`mysql --password ${VALUE} -u root`, VALUE],
  [`mysql --password=${VALUE}`, VALUE],
  [`cli --api-key "${SPACED}"`, SPACED],
  [`const API_KEY: string = "${SPACED}";`, SPACED],
  [`API_KEY: Optional[str] = '${SPACED}'`, SPACED],
  [`process.env["API_KEY"] = "${SPACED}"`, SPACED],
  [`os.environ['API_KEY']='${SPACED}'`, SPACED],
  [`if (password === "${SPACED}") return`, SPACED],
  [`if password != '${SPACED}':`, SPACED],
  [`password := "${SPACED}"`, SPACED],
  [`first line\npassword=${VALUE}\nlast line`, VALUE],
  [`password="first line\n${SPACED}"`, SPACED],
  [`password="first line\\\n${SPACED}"`, SPACED],
  [`password="a\\"b ${SPACED}"`, SPACED],
  [`curl 'https://x.test/?api_key=${VALUE}&q=1'`, VALUE],
  [`postgres://admin:${VALUE}@db/main`, VALUE],
  [`postgres://admin:p@${VALUE}@db/main`, VALUE],
  [JSON.stringify({ api_key: SPACED, next: "visible" }), SPACED],
  [JSON.stringify({ password: `a"b\\ ${SPACED}` }), SPACED],
  [JSON.stringify({ log: JSON.stringify({ db_password: SPACED }) }), SPACED],
  [JSON.stringify([JSON.stringify({ log: JSON.stringify({ my_token: SPACED }) })]), SPACED],
  [JSON.stringify(`first\ntoken=${VALUE}`), VALUE],
  [`password="${SPACED}`, SPACED],
  [`password='${SPACED}`, SPACED],
  [`{\\"my_key\\": \\"${SPACED}`, SPACED],
];

test.each(ASSIGNMENTS)("in a log, %s loses its value", (text, secret) => {
  const clean = redact(text);
  expect(clean).not.toContain(secret);
  expect(clean).not.toContain(secret.slice(8));
  expect(clean).toContain("[redacted]");
});

test("a redacted assignment keeps its name and what follows", () => {
  expect(redact(`A_KEY=${VALUE} node server.js --port=80`)).toBe("A_KEY=[redacted] node server.js --port=80");
  expect(redact(`{"a_key":"${SPACED}","user":"ada"}`)).toBe('{"a_key":[redacted],"user":"ada"}');
});

test.each([
  "const key = tokens[i]; if (!key) return;",
  'const password = await prompt("password: ");',
  "GITHUB_TOKEN=$GITHUB_TOKEN npm_token=process.env.NPM_TOKEN",
  "Implement basic authentication for the login page, with bearer authentication as an option.",
  "basic understanding of JavaScript; Basic/advanced configuration",
  "the task-list-with-a-very-long-name and the disk-usage-of-every-worktree",
  "git checkout -b overseer/ada/risk-assessment-of-dependencies",
  "weighs_heavily, highs_and_lows, laughs_at",
  "https://user@example.com/path?x=1 http://localhost:8080/a@b",
  "import { createPrivateKey } from 'node:crypto'; // BEGIN PRIVATE KEY",
  "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
  "foo.bar.baz, eyJust.kidding.me, AKIAshort, sk-short, xoxo-hugs",
  "fluxapp-frontend-production",
])("mail and specs keep ordinary text and code: %s", (text) => {
  expect(redactTokens(text)).toBe(text);
});

describe("a cut", () => {
  const filler = (n: number) => "word ".repeat(Math.ceil(n / 5)).slice(0, n);

  test("through a token shows none of it", () => {
    for (const [, whole, secret] of TOKENS) {
      for (let before = 150; before <= 200; before += 7) {
        const shown = cleanText(`${filler(before)} ${whole} ${filler(1_000)}`, 200, true);
        expect(shown).not.toContain(secret.slice(0, 6));
        expect(shown.length).toBeLessThan(250);
      }
    }
  });

  test("beyond which much was redacted shows no part of a secret at its far end", () => {
    const key = pem("", "A".repeat(600));
    for (const [, whole, secret] of TOKENS) {
      for (let gap = 0; gap <= 160; gap += 5) {
        const shown = cleanText(`${key}${filler(gap)} ${whole} ${filler(1_000)}`, 200, true);
        expect(shown).not.toContain(secret.slice(0, 6));
      }
    }
  });

  test("tells how long the text was; a short text stays as it is", () => {
    const start = "x".repeat(100);
    expect(cleanText("x".repeat(1_000), 100, true)).toBe(`${start}... [1000 characters]`);
    expect(cleanText("x".repeat(300), 100, true)).toBe(`${start}... [300 characters]`);
    expect(cleanText("short", 10, true)).toBe("short");
    expect(cleanText(`A_KEY=${VALUE}`, 100, false)).toBe(`A_KEY=${VALUE}`);
  });
});

describe("a value of a tool call", () => {
  const bounds = { maxText: 500, maxItems: 5, maxDepth: 4 };

  test.each(TOKENS)("has no %s secret at any depth, in any text or key", (_kind, whole, secret) => {
    const value = { a: whole, b: [{ c: [`x ${whole} y`] }], [whole]: { [`k ${whole}`]: 1 } };
    expect(JSON.stringify(cleanValue(value, bounds, true))).not.toContain(
      JSON.stringify(secret).slice(1, -1),
    );
  });

  test.each([
    "password",
    "DB_PASSWORD",
    "api_key",
    "apiKey",
    "x-api-key",
    "secret",
    "clientSecret",
    "NPM_TOKEN",
    "accessToken",
    "key",
  ])("is hidden under the name %s, whatever it looks like", (name) => {
    for (const secret of [SPACED, [SPACED], 31_415_926]) {
      const clean = JSON.stringify(cleanValue({ env: { [name]: secret, user: "ada" } }, bounds, true));
      expect(clean).not.toContain("staple");
      expect(clean).not.toContain("31415926");
      expect(clean).toContain('"user":"ada"');
    }
  });

  test.each(["monkey", "max_tokens", "keyboard", "tokenizer", "passed"])(
    "is shown under the name %s",
    (name) => {
      expect(cleanValue({ [name]: SPACED }, bounds, true)).toEqual({ [name]: SPACED });
    },
  );

  test("is bounded in length, number and depth, and a key called __proto__ is only a key", () => {
    const value: unknown = JSON.parse('{"__proto__": {"a": [1, 2, 3, 4, 5, 6, 7]}, "deep": [[[[["x"]]]]]}');
    const clean = JSON.stringify(cleanValue(value, bounds, true));
    expect(clean).toBe('{"__proto__":{"a":[1,2,3,4,5,"[2 more]"]},"deep":[[["[deeper]"]]]}');
    const many = Object.fromEntries(Array.from({ length: 9 }, (_, n) => [`k${n}`, n]));
    expect(cleanValue(many, bounds, true)).toEqual({ k0: 0, k1: 1, k2: 2, k3: 3, k4: 4, "...": "[4 more]" });
  });

  test.each(TOKENS)("leaves no %s secret in what any hook event keeps", (_kind, whole, secret) => {
    const say = `git ${whole} && overseer mail ${whole} && git -c http.x=${whole} push`;
    const payload = readPayload(
      JSON.stringify({
        ...{ agent_id: whole, tool_name: whole, tool_input: { command: say, file_path: whole } },
        ...{
          tool_response: { stdout: say, other: [whole] },
          error: { message: whole },
          error_details: whole,
        },
        ...{ source: whole, reason: whole, message: whole, last_assistant_message: say },
      }),
    );
    if (!payload) throw new Error("it is a JSON object");
    for (const event of HOOK_EVENTS) {
      for (const subagentId of [null, whole]) {
        const kept = JSON.stringify(
          interpret(event, { ...payload, subagentId }, { isWorker: true, isRedacting: true, now: 0 }),
        );
        for (const line of secret.split("\n")) expect(kept).not.toContain(line);
      }
    }
  });
});

test("whatever surrounds it, a token never survives", () => {
  const around = fc.string({
    unit: fc.constantFrom(..."ab1 \n\t\"'`\\=:;,.{}[]()-_/<>&%#@!"),
    maxLength: 40,
  });
  const edge = fc.constantFrom(
    " ",
    "\n",
    '"',
    "'",
    "`",
    "(",
    "[",
    "{",
    "=",
    ":",
    ",",
    "\\n",
    "\\t",
    "/",
    ">",
    "%20",
  );
  const after = fc.constantFrom("", " ", "\n", '"', "'", "`", ")", "]", "}", ",", ";", "\\n", "<", "&");
  const secret = fc.constantFrom(...TOKENS.filter(([kind]) => kind !== "Slack hook"));
  fc.assert(
    fc.property(around, edge, secret, after, around, (before, left, [, whole, hidden], right, rest) => {
      const text = `${before}${left}${whole}${right}${rest}`;
      expect(redactTokens(text)).not.toContain(hidden);
      expect(redact(text)).not.toContain(hidden);
      expect(cleanText(text, 60, true)).not.toContain(hidden);
      expect(
        JSON.stringify(cleanValue({ a: [text] }, { maxText: 60, maxItems: 3, maxDepth: 3 }, true)),
      ).not.toContain(hidden);
    }),
    { numRuns: 3_000 },
  );
});

test("whatever the value, it never survives its assignment", () => {
  const value = fc.stringMatching(/^[A-Za-z0-9_.+/-]{12,30}$/).map((text) => `S3${text}`);
  const name = fc.constantFrom("MY_KEY", "my_token", "password", "DB_PASSWORD", "x-api-key", "AUTH_SECRET");
  const put = fc.constantFrom<(n: string, v: string) => string>(
    (n, v) => `${n}=${v}`,
    (n, v) => `export ${n}="${v} ${v}"`,
    (n, v) => `${n}: '${v} ${v}'`,
    (n, v) => `${n} = "${v}`,
    (n, v) => JSON.stringify({ [n]: `${v} "${v}"` }),
    (n, v) => JSON.stringify({ text: JSON.stringify({ [n]: v }) }),
  );
  const around = fc.string({ unit: fc.constantFrom(..."ab1 \n\t;,.{}[]()-_/<>&"), maxLength: 40 });
  fc.assert(
    fc.property(around, name, put, value, around, (before, n, assign, v, rest) => {
      expect(redact(`${before} ${assign(n, v)} ${rest}`)).not.toContain(v);
    }),
    { numRuns: 3_000 },
  );
});

/** Each a pattern's beginning that never becomes its end: two nested loops over a megabyte would take minutes. */
const UNITS = [
  ...'-eyJ|eyJ-|eyJaaaaaaaa.|sk-|bearer |bearer|Authorization: |_key="|_key=\'|_key=\\"|_key=`|_key |_key:|_key:a'.split(
    "|",
  ),
  ...'_key="\\|password|--password |://|://a:|:|=|-----BEGIN PRIVATE KEY|-----BEGIN A|PRIVATE KEY |AKIA|xoxa-'.split(
    "|",
  ),
  ..."AIza|ya29.|\\|\"|'|`|a|A|1| |\n|<|< |</ |<\n/|https://hooks.slack.com/services/|\u001b[31m|[1;|%20".split(
    "|",
  ),
];
const STARTS = [
  "_key",
  "bearer",
  "--password",
  'password="',
  "-----BEGIN PRIVATE KEY-----END ",
  "eyJ",
  "<",
  "://a:",
];

test.each(UNITS)(
  "a megabyte of %j keeps no pattern busy",
  (unit) => {
    const text = unit.repeat(Math.ceil((1024 * 1024) / unit.length));
    const starts = unit.length === 1 || unit.startsWith("PRIVATE") ? STARTS : [];
    for (const start of ["", ...starts]) {
      expect(redact(start + text)).not.toBe("");
      expect(neutralise(start + text)).not.toBe("");
    }
  },
  10_000,
);
