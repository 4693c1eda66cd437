import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import type { Message } from "../src/domain/mail.ts";
import type { Claimant, ClaimRequest, MailStore, NewMessage } from "../src/store/mail-contract.ts";
import { openMail } from "../src/store/sqlite/mail.ts";
import { tempFolder } from "./support/temp.ts";

/** The one line that a second backend changes. */
const openBackend = (file: string): MailStore => openMail(file, { mayUpgrade: true });

function freshMail() {
  const folder = tempFolder();
  const file = `${folder.path}/mail.db`;
  const opened: MailStore[] = [];
  const another = () => {
    const mail = openBackend(file);
    opened.push(mail);
    return mail;
  };
  return {
    folder,
    file,
    mail: another(),
    another,
    [Symbol.dispose]() {
      for (const mail of opened) mail.close();
      folder.remove();
    },
  };
}

function message(id: string, more: Partial<NewMessage> = {}): NewMessage {
  const plain = {
    from: "bob",
    to: "ada",
    type: "status",
    priority: "normal",
    threadId: "th",
    createdAt: 1,
  } as const;
  return { ...plain, id, subject: `subject of ${id}`, body: `body of ${id}`, ...more };
}

const numbered = (n: number, more: Partial<NewMessage> = {}) =>
  Array.from({ length: n }, (_, i) => message(`m-${i}`, more));

const HOOK: Claimant = { process: "10:1", claudeSessionId: "c-1" };
const OTHER: Claimant = { process: "20:1", claudeSessionId: "c-2" };

function request(claimant: Claimant, more: Partial<ClaimRequest> = {}): ClaimRequest {
  return { recipient: "ada", claimant, at: 5, pressingOnly: false, maxLength: 8_000, ...more };
}

const ids = (messages: readonly Message[]) => messages.map(({ id }) => id);
const claim = async (mail: MailStore, claimant: Claimant, more: Partial<ClaimRequest> = {}) =>
  ids((await mail.claim(request(claimant, more))).included);
const unread = async (mail: MailStore) => ids(await mail.listMessages({ isUnread: true, limit: 99 }));

test("a message comes back as it was sent", async () => {
  using home = freshMail();
  const sent = message("m-1", {
    body: "one\ntwo \u{1f600}",
    type: "question",
    priority: "urgent",
    createdAt: 7,
  });
  await home.mail.send([sent]);
  expect(await home.another().findMessage("m-1")).toEqual({ ...sent, read: false });
  expect(await home.mail.findMessage("m-2")).toBeNull();
});

test("a message that breaks a rule of the store is refused, and so is all that came with it", async () => {
  using home = freshMail();
  const broken = { ...message("m-2"), type: "gossip" as NewMessage["type"] };
  await expect(home.mail.send([message("m-1"), broken, message("m-3")])).rejects.toThrow();
  expect(await home.mail.listMessages({ limit: 9 })).toEqual([]);
});

test("a message whose id is known is not sent again, whatever became of it", async () => {
  using home = freshMail();
  await home.mail.send([message("m-1", { body: "first" })]);
  await home.mail.markRead(["m-1"], 9);
  await home.mail.send([message("m-1", { body: "second" }), message("m-2")]);
  expect(await home.mail.findMessage("m-1")).toMatchObject({ body: "first", read: true });
  expect(await unread(home.mail)).toEqual(["m-2"]);
});

test("what was claimed is shown whole, in order, and to nobody else", async () => {
  using home = freshMail();
  await home.mail.send(numbered(3));
  const injection = await home.mail.claim(request(HOOK));
  expect(ids(injection.included)).toEqual(["m-0", "m-1", "m-2"]);
  expect(injection.left).toBe(0);
  const places = [0, 1, 2].map((n) => injection.text.indexOf(`\nbody of m-${n}\n</overseer-mail>`));
  expect(places.every((place, n) => place > (places[n - 1] ?? 0))).toBe(true);
  expect(await home.another().claim(request(OTHER))).toEqual({ text: "", included: [], left: 0 });
  expect(await unread(home.mail)).toEqual(["m-0", "m-1", "m-2"]);
});

test("exactly what fits is claimed; the last line counts the rest, and another claim goes on from there", async () => {
  using home = freshMail();
  await home.mail.send(numbered(7, { body: "x".repeat(800) }));
  const first = await home.mail.claim(request(HOOK, { maxLength: 3_200 }));
  expect(ids(first.included)).toEqual(["m-0", "m-1", "m-2"]);
  expect(first.text.length).toBeLessThanOrEqual(3_200);
  expect(first.left).toBe(4);
  expect(first.text.split("\n").at(-1)).toBe(
    "4 more unread messages wait: read them with: overseer mail check",
  );
  const second = await home.another().claim(request(OTHER));
  expect(ids(second.included)).toEqual(["m-3", "m-4", "m-5", "m-6"]);
});

test("a message too long for any injection is shown by its head, alone in its turn", async () => {
  using home = freshMail();
  await home.mail.send([message("m-0"), message("m-1", { body: "y".repeat(60_000) }), message("m-2")]);
  expect(await claim(home.mail, HOOK)).toEqual(["m-0"]);
  const injection = await home.mail.claim(request(HOOK));
  expect(ids(injection.included)).toEqual(["m-1", "m-2"]);
  expect(injection.text).toContain("This message has 60000 characters. Read it with: overseer mail read m-1");
  expect(injection.text).not.toContain("yyy");
  expect(injection.text.length).toBeLessThanOrEqual(8_000);
});

test("a claim takes nobody else's mail", async () => {
  using home = freshMail();
  await home.mail.send([message("m-1", { to: "eve" }), message("m-2")]);
  expect(await claim(home.mail, HOOK)).toEqual(["m-2"]);
  expect(await home.mail.glance("eve")).toEqual({ hasUnread: true, hasPressing: false, claims: [] });
});

test("pressing mail comes with what its sender wrote before it, and with nothing else", async () => {
  using home = freshMail();
  await home.mail.send([
    message("m-0", { from: "eve" }),
    message("m-1", { from: "bob" }),
    message("m-2", { from: "bob", priority: "high" }),
    message("m-3", { from: "bob" }),
    message("m-4", { from: "eve", to: "bob", type: "steer" }),
  ]);
  expect(await claim(home.mail, HOOK, { pressingOnly: true })).toEqual(["m-1", "m-2"]);
  expect(await claim(home.mail, HOOK, { pressingOnly: true })).toEqual([]);
  expect(await claim(home.mail, HOOK)).toEqual(["m-0", "m-3"]);
});

test.each([
  [{ type: "steer" }, true],
  [{ priority: "high" }, true],
  [{ priority: "urgent" }, true],
  [{ priority: "normal", type: "escalation" }, false],
  [{ priority: "low" }, false],
] as const)("%j is pressing: %p", async (kind, isPressing) => {
  using home = freshMail();
  await home.mail.send([message("m-1", kind)]);
  expect(await home.mail.glance("ada")).toEqual({ hasUnread: true, hasPressing: isPressing, claims: [] });
  expect(await claim(home.mail, HOOK, { pressingOnly: true })).toEqual(isPressing ? ["m-1"] : []);
});

test("claims at once in several processes share no message and miss none", async () => {
  using home = freshMail();
  await home.mail.send(numbered(120, { body: "z".repeat(300) }));
  const script = home.folder.write(
    "claim.ts",
    `import { openMail } from ${JSON.stringify(new URL("../src/store/sqlite/mail.ts", import.meta.url).pathname)};
     const mail = openMail(process.argv[2], { mayUpgrade: false });
     const claimant = { process: String(process.pid), claudeSessionId: null };
     for (;;) {
       const { included } = await mail.claim({
         recipient: "ada", claimant, at: 1, pressingOnly: false, maxLength: 1500,
       });
       if (included.length === 0) break;
       console.log(included.map((message) => message.id).join("\\n"));
     }`,
  );
  const children = Array.from({ length: 4 }, () =>
    Bun.spawn([process.execPath, script, home.file], { stderr: "pipe" }),
  );
  const shown = await Promise.all(
    children.map(async (child) => {
      const text = await new Response(child.stdout).text();
      expect([await child.exited, await new Response(child.stderr).text()]).toEqual([0, ""]);
      return text.split("\n").filter((line) => line !== "");
    }),
  );
  expect(shown.flat().toSorted()).toEqual(ids(await home.mail.listMessages({ limit: 999 })).toSorted());
  const inOrder = shown.map((list) => list.map((id) => Number(id.slice(2))));
  for (const list of inOrder) expect(list).toEqual(list.toSorted((a, b) => a - b));
});

test("what a process printed is handed to the session that shows it, which then acknowledges it", async () => {
  using home = freshMail();
  await home.mail.send(numbered(3));
  const printer: Claimant = { process: "99:1", claudeSessionId: "c-1" };
  await claim(home.mail, printer);
  await home.mail.handOver(["m-0", "m-1"], "99:1", HOOK);
  const { claims } = await home.mail.glance("ada");
  expect(claims).toHaveLength(2);
  expect(claims).toEqual(expect.arrayContaining([HOOK, printer]));
  expect(await home.mail.acknowledge("ada", HOOK, 8)).toEqual(["m-0", "m-1"]);
  expect(await home.mail.acknowledge("ada", HOOK, 9)).toEqual([]);
  expect(await unread(home.mail)).toEqual(["m-2"]);
});

test("nobody hands over what another holds, what is free or what is read", async () => {
  using home = freshMail();
  await home.mail.send(numbered(3, { body: "x".repeat(500) }));
  await claim(home.mail, OTHER, { maxLength: 1_000 });
  await home.mail.markRead(["m-2"], 6);
  await home.mail.handOver(["m-0", "m-1", "m-2", "m-unknown"], HOOK.process, HOOK);
  expect((await home.mail.glance("ada")).claims).toEqual([OTHER]);
  expect(await home.mail.acknowledge("ada", HOOK, 9)).toEqual([]);
  expect(await claim(home.mail, HOOK)).toEqual(["m-1"]);
});

test("an acknowledgement is for one session of one process and one inbox", async () => {
  using home = freshMail();
  await home.mail.send([message("m-1")]);
  await claim(home.mail, HOOK);
  expect(await home.mail.acknowledge("ada", { ...HOOK, claudeSessionId: "c-9" }, 8)).toEqual([]);
  expect(await home.mail.acknowledge("ada", { ...HOOK, process: "10:2" }, 8)).toEqual([]);
  expect(await home.mail.acknowledge("eve", HOOK, 8)).toEqual([]);
  expect(await unread(home.mail)).toEqual(["m-1"]);
});

test("only what has arrived is acknowledged; the rest stays claimed until it has", async () => {
  using home = freshMail();
  await home.mail.send(numbered(3));
  await claim(home.mail, HOOK);
  expect(await home.mail.acknowledge("ada", HOOK, 8, (id) => id === "m-1")).toEqual(["m-1"]);
  expect(await unread(home.mail)).toEqual(["m-0", "m-2"]);
  expect((await home.mail.glance("ada")).claims).toEqual([HOOK]);
  expect(await home.mail.acknowledge("ada", HOOK, 9)).toEqual(["m-0", "m-2"]);
});

test("released mail is unread again and shown to the next, before what came later", async () => {
  using home = freshMail();
  await home.mail.send(numbered(2));
  await claim(home.mail, HOOK);
  await home.mail.send([message("m-2")]);
  expect(await home.mail.release("ada", { claudeSessionId: "c-2" })).toEqual([]);
  expect(await home.mail.release("eve", { claudeSessionId: "c-1" })).toEqual([]);
  expect(await home.mail.release("ada", { process: "10:2" })).toEqual([]);
  expect(await home.mail.release("ada", { claudeSessionId: "c-1" })).toEqual(["m-0", "m-1"]);
  expect(await home.mail.glance("ada")).toEqual({ hasUnread: true, hasPressing: false, claims: [] });
  expect(await claim(home.mail, OTHER)).toEqual(["m-0", "m-1", "m-2"]);
});

test("a dead process loses its claims whatever session they were for", async () => {
  using home = freshMail();
  await home.mail.send(numbered(2, { body: "x".repeat(500) }));
  await claim(home.mail, { process: "10:1", claudeSessionId: "c-1" }, { maxLength: 1_000 });
  await claim(home.mail, { process: "10:1", claudeSessionId: null });
  expect(await home.mail.release("ada", { process: "10:1" })).toEqual(["m-0", "m-1"]);
});

test("what is read stays read: no release, no claim and no second reading brings it back", async () => {
  using home = freshMail();
  await home.mail.send(numbered(2));
  await claim(home.mail, HOOK);
  await home.mail.markRead(["m-0", "m-unknown"], 8);
  expect(await home.mail.release("ada", {})).toEqual(["m-1"]);
  await home.mail.markRead(["m-0"], 9);
  expect(await claim(home.mail, OTHER)).toEqual(["m-1"]);
  expect(await home.mail.findMessage("m-0")).toMatchObject({ read: true });
});

test("a glance tells free, pressing and claimed mail apart", async () => {
  using home = freshMail();
  const nothing = { hasUnread: false, hasPressing: false, claims: [] };
  expect(await home.mail.glance("ada")).toEqual(nothing);
  await home.mail.send([message("m-1", { priority: "urgent" })]);
  expect(await home.mail.glance("ada")).toEqual({ hasUnread: true, hasPressing: true, claims: [] });
  await claim(home.mail, HOOK);
  expect(await home.mail.glance("ada")).toEqual({ ...nothing, claims: [HOOK] });
  await home.mail.acknowledge("ada", HOOK, 9);
  expect(await home.mail.glance("ada")).toEqual(nothing);
});

test("looking never writes: no glance, list, count, find or check changes a byte", async () => {
  using home = freshMail();
  await home.mail.send([message("m-1", { priority: "urgent" }), message("m-2", { to: "eve" })]);
  await claim(home.mail, HOOK, { recipient: "eve" });
  const watcher = new Database(home.file);
  const bytes = () => ["", "-wal"].map((part) => readFileSync(`${home.file}${part}`).toString("base64"));
  const version = () => watcher.query("PRAGMA data_version").get();
  const before = [version(), bytes()];
  for (const who of ["ada", "eve", "nobody"]) await home.mail.glance(who);
  await home.mail.listMessages({ to: "ada", isUnread: true, limit: 9 });
  await home.mail.unreadCounts();
  await home.mail.findMessage("m-1");
  await home.mail.check();
  expect(existsSync(`${home.file}-journal`)).toBe(false);
  expect([version(), bytes()]).toEqual(before);
  watcher.close();
});

test("unread counts include what is claimed but not read, by recipient", async () => {
  using home = freshMail();
  await home.mail.send([
    message("m-1"),
    message("m-2"),
    message("m-3", { to: "eve" }),
    message("m-4", { to: "bob" }),
  ]);
  await claim(home.mail, HOOK);
  await home.mail.markRead(["m-1", "m-4"], 9);
  expect(await home.mail.unreadCounts()).toEqual(
    new Map([
      ["ada", 1],
      ["eve", 1],
    ]),
  );
});

test.each([
  [{ limit: 9 }, ["m-0", "m-1", "m-2", "m-3"]],
  [{ limit: 2 }, ["m-2", "m-3"]],
  [{ from: "bob", limit: 9 }, ["m-0", "m-2"]],
  [{ to: "eve", limit: 9 }, ["m-1", "m-2"]],
  [{ threadId: "th-2", limit: 9 }, ["m-3"]],
  [{ party: "ada", limit: 9 }, ["m-0", "m-1", "m-3"]],
  [{ isUnread: true, limit: 9 }, ["m-1", "m-2", "m-3"]],
  [{ isUnread: true, from: "bob", limit: 9 }, ["m-2"]],
  [{ from: "nobody", limit: 9 }, []],
])("the newest messages that match %j, oldest first", async (filter, expected) => {
  using home = freshMail();
  await home.mail.send([
    message("m-0"),
    message("m-1", { from: "ada", to: "eve" }),
    message("m-2", { to: "eve" }),
    message("m-3", { from: "eve", threadId: "th-2" }),
  ]);
  await home.mail.markRead(["m-0"], 9);
  expect(ids(await home.mail.listMessages(filter))).toEqual(expected);
});

test("restored mail is there once, read or unread as the logs tell", async () => {
  using home = freshMail();
  await home.mail.send([message("m-1", { body: "alive" })]);
  const told = [
    { ...message("m-1", { body: "from the logs" }), readAt: 5 },
    { ...message("m-2", { priority: "high" }), readAt: null },
    { ...message("m-3"), readAt: 6 },
  ];
  expect(await home.mail.restore(told)).toBe(2);
  expect(await home.mail.restore(told)).toBe(0);
  expect(await home.mail.findMessage("m-1")).toMatchObject({ body: "alive", read: false });
  expect(await home.mail.findMessage("m-3")).toMatchObject({ read: true });
  expect(await home.mail.glance("ada")).toMatchObject({ hasPressing: true });
  expect(await home.mail.check()).toEqual([]);
});

test("ten thousand unread messages are shown in order, each once, however many checks it takes", async () => {
  using home = freshMail();
  const sent = numbered(10_000);
  await home.mail.send(sent);
  expect(await home.mail.unreadCounts()).toEqual(new Map([["ada", 10_000]]));
  const first = await home.mail.claim(request(HOOK));
  expect(first.text.length).toBeLessThanOrEqual(8_000);
  expect(first.left).toBe(10_000 - first.included.length);
  const shown = ids(first.included);
  while (shown.length < sent.length) {
    const more = await claim(home.mail, HOOK, { maxLength: 1_000_000 });
    expect(more).not.toEqual([]);
    await home.mail.markRead(more, 9);
    shown.push(...more);
  }
  expect(shown).toEqual(sent.map(({ id }) => id));
  expect(await claim(home.mail, OTHER)).toEqual([]);
});
