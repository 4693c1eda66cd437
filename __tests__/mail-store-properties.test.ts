import { expect, test } from "bun:test";
import fc from "fast-check";
import {
  isPressing,
  MAX_INJECTION_LENGTH,
  MAX_SUBJECT_LENGTH,
  MESSAGE_TYPES,
  type Message,
  neutralise,
  planInjection,
} from "../src/domain/mail.ts";
import { PRIORITIES } from "../src/domain/task.ts";
import type { Claimant, MailStore, NewMessage } from "../src/store/mail-contract.ts";
import { openMail } from "../src/store/sqlite/mail.ts";
import { tempFolder } from "./support/temp.ts";

/** The one line that a second backend changes. */
const openBackend = (file: string): MailStore => openMail(file, { mayUpgrade: true });

const PEOPLE = ["ada", "bob", "eve"];
const CLAIMANTS: readonly Claimant[] = [
  { process: "1:1", claudeSessionId: "c-1" },
  { process: "2:1", claudeSessionId: "c-1" },
  { process: "2:1", claudeSessionId: "c-2" },
  { process: "3:1", claudeSessionId: "c-3" },
];

const person = fc.constantFrom(...PEOPLE);
const claimant = fc.constantFrom(...CLAIMANTS);
const places = fc.array(fc.nat(30), { maxLength: 4 });

const command = fc.oneof(
  fc.record({
    do: fc.constant("send" as const),
    letters: fc.array(
      fc.record({ n: fc.nat(30), from: person, to: person, isUrgent: fc.boolean(), length: fc.nat(900) }),
      { minLength: 1, maxLength: 4 },
    ),
  }),
  fc.record({
    do: fc.constant("claim" as const),
    recipient: person,
    by: claimant,
    pressingOnly: fc.boolean(),
    maxLength: fc.integer({ min: 400, max: 3_000 }),
  }),
  fc.record({ do: fc.constant("handOver" as const), places, from: claimant, to: claimant }),
  fc.record({ do: fc.constant("acknowledge" as const), recipient: person, by: claimant }),
  fc.record({
    do: fc.constant("release" as const),
    recipient: person,
    by: fc.oneof(
      claimant,
      claimant.map(({ process }) => ({ process })),
      claimant.map(({ claudeSessionId }) => ({ claudeSessionId })),
    ),
  }),
  fc.record({ do: fc.constant("markRead" as const), places }),
);
type Command = typeof command extends fc.Arbitrary<infer C> ? C : never;

/** What the store ought to hold, in the plainest way: each message is free, held by one claimant, or read. */
interface Letter extends NewMessage {
  holder: Claimant | "nobody" | "read";
  wasReleased: boolean;
}

class Model {
  readonly letters: Letter[] = [];
  readonly shown = new Map<Claimant, Letter[]>();

  at(indices: readonly number[]): Letter[] {
    return indices.map((index) => this.letters[index]).filter((letter) => letter !== undefined);
  }

  heldBy(recipient: string, by: Partial<Claimant>): Letter[] {
    return this.letters.filter(
      ({ to, holder }) =>
        to === recipient &&
        typeof holder === "object" &&
        (by.process ?? holder.process) === holder.process &&
        (by.claudeSessionId ?? holder.claudeSessionId) === holder.claudeSessionId,
    );
  }

  /** What a claim may show, in the order in which it was sent. */
  due(recipient: string, pressingOnly: boolean): Letter[] {
    const free = this.letters.filter(({ to, holder }) => to === recipient && holder === "nobody");
    if (!pressingOnly) return free;
    return free.filter((letter, n) =>
      free.slice(n).some((later) => later.from === letter.from && isPressing(later)),
    );
  }
}

const idsOf = (messages: readonly { id: string }[]) => messages.map(({ id }) => id);

async function carryOut(step: Command, model: Model, mail: MailStore): Promise<void> {
  switch (step.do) {
    case "send": {
      const messages = step.letters.map(({ n, from, to, isUrgent, length }): NewMessage => {
        const priority = isUrgent ? "urgent" : "normal";
        const rest = {
          subject: "s",
          body: "b".repeat(length),
          type: "status",
          threadId: "t",
          createdAt: n,
        } as const;
        return { id: `m-${n}`, from, to, priority, ...rest };
      });
      await mail.send(messages);
      for (const message of messages) {
        if (idsOf(model.letters).includes(message.id)) continue;
        model.letters.push({ ...message, holder: "nobody", wasReleased: false });
      }
      return;
    }
    case "claim": {
      const { recipient, pressingOnly, maxLength, by } = step;
      const due = model.due(recipient, pressingOnly);
      const waiting = model.due(recipient, false).length;
      const injection = await mail.claim({ recipient, claimant: by, at: 1, pressingOnly, maxLength });
      const taken = due.slice(0, injection.included.length);
      expect(idsOf(injection.included)).toEqual(idsOf(taken));
      expect(injection.left).toBe(waiting - taken.length);
      if (due.length > 0) expect(taken).not.toEqual([]);
      for (const letter of taken) letter.holder = by;
      model.shown.set(by, [...(model.shown.get(by) ?? []), ...taken]);
      return;
    }
    case "handOver": {
      const letters = model.at(step.places);
      await mail.handOver(idsOf(letters), step.from.process, step.to);
      for (const letter of letters) {
        const isTheirs = typeof letter.holder === "object" && letter.holder.process === step.from.process;
        if (isTheirs) letter.holder = step.to;
      }
      return;
    }
    case "acknowledge": {
      const held = model.heldBy(step.recipient, step.by);
      expect(await mail.acknowledge(step.recipient, step.by, 2)).toEqual(idsOf(held));
      for (const letter of held) letter.holder = "read";
      return;
    }
    case "release": {
      const held = model.heldBy(step.recipient, step.by);
      expect(await mail.release(step.recipient, step.by)).toEqual(idsOf(held));
      for (const letter of held) Object.assign(letter, { holder: "nobody", wasReleased: true });
      return;
    }
    case "markRead": {
      const letters = model.at(step.places);
      await mail.markRead(idsOf(letters), 3);
      for (const letter of letters) letter.holder = "read";
    }
  }
}

async function expectAgreement(model: Model, mail: MailStore): Promise<void> {
  const stored = await mail.listMessages({ limit: 999 });
  expect(stored.map(({ id, read }) => [id, read])).toEqual(
    model.letters.map(({ id, holder }) => [id, holder === "read"]),
  );
  const counts = await mail.unreadCounts();
  for (const name of PEOPLE) {
    const free = model.due(name, false);
    const held = model.heldBy(name, {});
    expect(counts.get(name) ?? 0).toBe(free.length + held.length);
    const { claims, ...glance } = await mail.glance(name);
    expect(glance).toEqual({ hasUnread: free.length > 0, hasPressing: free.some(isPressing) });
    expect(new Set(claims.map(markOf))).toEqual(new Set(held.map(({ holder }) => markOf(holder))));
  }
}

const markOf = (holder: Letter["holder"]) => JSON.stringify(holder);

/** A message that came back from the dead is late by nature; all others come in the order of their sender. */
function expectOrder(model: Model): void {
  for (const shown of model.shown.values()) {
    const places = Map.groupBy(
      shown.filter((letter) => !letter.wasReleased),
      ({ from, to }) => `${from} ${to}`,
    );
    for (const letters of places.values()) {
      const order = letters.map((letter) => model.letters.indexOf(letter));
      expect(order).toEqual(order.toSorted((a, b) => a - b));
    }
  }
}

test("whatever is sent, claimed, handed over, acknowledged, released and read in any order: nothing is lost, doubled or shared", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(command, fc.nat(1)), { maxLength: 40 }), async (steps) => {
      using folder = tempFolder();
      const stores = [openBackend(`${folder.path}/mail.db`), openBackend(`${folder.path}/mail.db`)];
      const model = new Model();
      try {
        for (const [step, n] of steps) {
          const mail = stores[n];
          if (!mail) throw new Error("there are two stores");
          await carryOut(step, model, mail);
          await expectAgreement(model, mail);
        }
        expectOrder(model);
      } finally {
        for (const store of stores) store.close();
      }
    }),
    { numRuns: 150 },
  );
});

const text = (maxLength: number) => fc.string({ unit: "binary", maxLength });
const hostile = fc
  .array(fc.constantFrom("<", "/", "overseer-mail", ">", '"', "&", "\n", " ", "x"), { maxLength: 60 })
  .map((parts) => parts.join("").slice(0, MAX_SUBJECT_LENGTH));
const body = fc.oneof(
  text(300),
  hostile,
  fc.tuple(text(20), fc.nat(9_000)).map(([start, n]) => start + "x".repeat(n)),
);
const messages = fc
  .array(
    fc.record({
      from: fc.stringMatching(/^[a-z][a-z0-9-]{0,39}$/),
      subject: fc.oneof(text(MAX_SUBJECT_LENGTH), hostile),
      body,
      type: fc.constantFrom(...MESSAGE_TYPES),
      priority: fc.constantFrom(...PRIORITIES),
    }),
    { maxLength: 12 },
  )
  .map((list) =>
    list.map(
      (m, n): Message => ({ ...m, id: `msg-${n}-end`, to: "ada", threadId: "t", createdAt: 1, read: false }),
    ),
  );

test("an injection is never longer than allowed and shows whole messages, or one long one by its head", () => {
  const length = fc.integer({ min: 2_000, max: MAX_INJECTION_LENGTH });
  fc.assert(
    fc.property(messages, fc.nat(20_000), length, (candidates, waiting, maxLength) => {
      const { text: shown, included, left } = planInjection(candidates, waiting, maxLength);
      expect(shown.length).toBeLessThanOrEqual(maxLength);
      expect(included).toEqual(candidates.slice(0, included.length));
      expect(left).toBe(candidates.length - included.length + waiting);
      if (candidates.length > 0) expect(included).not.toEqual([]);
      for (const [n, message] of included.entries()) {
        const isWhole = shown.includes(`>\n${neutralise(message.body)}\n</overseer-mail>`);
        const isHead =
          n === 0 && shown.includes(`Read it with: overseer mail read ${message.id}\n</overseer-mail>`);
        expect([isWhole, isHead]).toContain(true);
        expect(shown).toContain(`from="${message.from}" id="${message.id}" type="${message.type}"`);
      }
      const next = candidates[included.length];
      if (next) expect(shown.length + neutralise(next.body).length).toBeGreaterThan(maxLength - 2_000);
      expect(shown.includes(`${left} more unread message`)).toBe(left > 0);
    }),
    { numRuns: 300 },
  );
});

test("an injection has as many tags as messages, and each opens where one begins", () => {
  fc.assert(
    fc.property(messages, (candidates) => {
      const { text: shown, included } = planInjection(candidates, 0, MAX_INJECTION_LENGTH);
      const lines = shown.split("\n");
      const opening = lines.filter((line) => line.startsWith("<overseer-mail "));
      expect(opening).toHaveLength(included.length);
      const tag =
        /^<overseer-mail from="[^"<>]*" id="[^"<>]*" type="[a-z]*" priority="[a-z]*" subject="[^"<>]*">$/;
      for (const line of opening) expect(line).toMatch(tag);
      expect(shown.match(/<\s*\/\s*overseer-/gi) ?? []).toHaveLength(included.length);
      expect(shown.match(/<\s*overseer-/gi) ?? []).toHaveLength(included.length);
    }),
    { numRuns: 300 },
  );
});
