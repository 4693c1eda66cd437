import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { constants, openSync, readSync, writeSync } from "node:fs";
import {
  type Answer,
  cleanEnvironment,
  killAfter,
  OVERSEER,
  type TempProject,
  tempProject,
} from "./support/cli.ts";
import { until } from "./support/until.ts";

let project: TempProject;
beforeEach(async () => {
  project = await tempProject();
});
afterEach(() => project.remove());

interface Shown {
  messages: { id: string; subject: string; body: string; read: boolean }[];
  left: number;
}

async function send(subject: string, body = "", more: readonly string[] = []): Promise<void> {
  const args = ["mail", "send", "--to", "human", "--subject", subject, "--body", "-", ...more];
  const answer = await project.overseer(args, { stdin: body });
  if (answer.exitCode !== 0) throw new Error(answer.stderr);
}

async function check(...more: string[]): Promise<Shown> {
  return (await project.overseer(["mail", "check", "--json", ...more])).data<Shown>();
}

async function unread(): Promise<string[]> {
  const answer: Answer = await project.overseer(["mail", "list", "--to", "human", "--unread", "--json"]);
  return answer.data<Shown>().messages.map(({ subject }) => subject);
}

const subjects = ({ messages }: Shown) => messages.map(({ subject }) => subject);

describe("mail check", () => {
  test("shows what is unread once, in order", async () => {
    await send("one", "first body");
    await send("two");
    const shown = await check();
    expect(subjects(shown)).toEqual(["one", "two"]);
    expect(shown.messages[0]).toMatchObject({ body: "first body", read: true });
    expect(await check()).toEqual({ messages: [], left: 0 });
    expect((await project.overseer(["mail", "check"])).stdout).toBe("No unread mail for human.\n");
  });

  test("--agent is whose inbox; a name that nobody has is refused instead of found empty", async () => {
    await project.register({ name: "ada" });
    await send("for the human");
    expect(subjects(await check("--agent", "ada"))).toEqual([]);
    expect(await unread()).toEqual(["for the human"]);
    for (const command of ["check", "wait"]) {
      const typo = await project.overseer(["mail", command, "--agent", "adda", "--json"]);
      expect(typo.exitCode).toBe(64);
      expect(typo.error()).toMatchObject({ code: "address_unknown", hint: "did you mean ada?" });
    }
  });

  test("what does not fit stays unread, and the last line says how much there is", async () => {
    for (const subject of ["a", "b", "c"]) await send(subject, "x".repeat(10_000));
    const { stdout } = await project.overseer(["mail", "check"]);
    expect(stdout).toEndWith("\n\n1 more unread: overseer mail check\n");
    expect(stdout.length).toBeLessThan(24_000);
    expect(await unread()).toEqual(["c"]);
    expect((await check()).left).toBe(0);
  });

  test("two at once show every message to one of them", async () => {
    for (const subject of ["a", "b", "c", "d"]) await send(subject);
    const both = await Promise.all([check(), check(), check()]);
    expect(both.flatMap(subjects).sort()).toEqual(["a", "b", "c", "d"]);
  });
});

describe("mail check --inject", () => {
  const inject = () => project.overseer(["mail", "check", "--inject"]);

  test("prints nothing at all when there is nothing", async () => {
    expect(await inject()).toMatchObject({ exitCode: 0, stdout: "", stderr: "" });
  });

  test("wraps each message as the hooks do", async () => {
    await send("Hello", "there", ["--priority", "high", "--type", "question"]);
    expect((await inject()).stdout).toMatch(
      /^<overseer-mail from="human" id="msg-\w+" type="question" priority="high" subject="Hello">\nthere\n<\/overseer-mail>\n$/,
    );
    expect((await inject()).stdout).toBe("");
  });

  test("is at most 8,000 characters in all, and what did not fit waits for the next", async () => {
    for (let n = 0; n < 9; n++) await send(`s${n}`, "y".repeat(1_500));
    const { stdout } = await inject();
    expect(stdout.trimEnd().length).toBeLessThanOrEqual(8_000);
    const shown = stdout.match(/subject="s\d"/g)?.length ?? 0;
    expect(shown).toBeGreaterThan(3);
    expect(stdout).toEndWith(
      `\n${9 - shown} more unread messages wait: read them with: overseer mail check\n`,
    );
    expect(await unread()).toHaveLength(9 - shown);
  });

  test("a message that is longer than that alone is named with the command that prints it", async () => {
    await send("huge", "z".repeat(60_000));
    const { stdout } = await inject();
    const id = /id="(msg-\w+)"/.exec(stdout)?.[1] ?? "";
    expect(stdout).toContain(`This message has 60000 characters. Read it with: overseer mail read ${id}`);
    expect(stdout.length).toBeLessThan(1_000);
    expect((await project.overseer(["mail", "read", id])).stdout).toContain("z".repeat(60_000));
  });
});

describe("mail wait", () => {
  test("shows what is there at once", async () => {
    await send("early");
    const answer = await project.overseer(["mail", "wait", "--timeout", "1m", "--json"]);
    expect(subjects(answer.data<Shown>())).toEqual(["early"]);
  });

  test("shows what arrives while it waits", async () => {
    const waiting = project.overseer(["mail", "wait", "--timeout", "1m", "--json"]);
    await send("late");
    expect(subjects((await waiting).data<Shown>())).toEqual(["late"]);
    expect(await unread()).toEqual([]);
  });

  test("ends with 75 after its time, and says so", async () => {
    const answer = await project.overseer(["mail", "wait", "--timeout", "300ms", "--json"]);
    expect(answer.exitCode).toBe(75);
    expect(answer.error()).toMatchObject({ code: "nothing_yet", message: "no mail for human yet" });
    expect((await project.overseer(["mail", "wait", "--timeout", "soon"])).exitCode).toBe(64);
  });
});

describe("a check that is killed before its reader has the mail", () => {
  /** A pipe that is full to the last byte: whoever writes to it waits. */
  function fullPipe() {
    const path = `${project.path}/pipe`;
    Bun.spawnSync(["mkfifo", path]);
    const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    const filler = openSync(path, constants.O_WRONLY | constants.O_NONBLOCK);
    fill(filler, 4_096);
    fill(filler, 1);
    return { reader, writer: openSync(path, constants.O_WRONLY) };
  }

  function fill(fd: number, size: number): void {
    while (unlessBusy(() => writeSync(fd, Buffer.alloc(size))) !== null);
  }

  /** Null where a pipe is full, or empty, at the moment. */
  function unlessBusy<T>(work: () => T): T | null {
    try {
      return work();
    } catch (error) {
      if (error instanceof Error && "code" in error && error.code === "EAGAIN") return null;
      throw error;
    }
  }

  function startCheck(stdout: number, ...more: string[]) {
    const argv = [OVERSEER, "mail", "check", ...more];
    return Bun.spawn(argv, { cwd: project.path, env: cleanEnvironment(), stdout, stderr: "ignore" });
  }

  async function isClaimed(): Promise<boolean> {
    return await project.open(async ({ mail }) => (await mail.glance("human")).claims.length > 0);
  }

  for (const how of [[], ["--json"], ["--inject"]]) {
    test(`mail check ${how.join("")} has not marked anything read; the next check shows it again`, async () => {
      await send("precious", "x".repeat(5_000));
      const { writer } = fullPipe();
      const stuck = startCheck(writer, ...how);
      await until("the check has claimed the mail", isClaimed);
      // It had all the time it could want to go on: what is claimed stays so while nobody reads the pipe.
      for (let look = 0; look < 5; look++) expect(subjects(await check())).toEqual([]);
      expect(await unread()).toEqual(["precious"]);

      stuck.kill("SIGKILL");
      await stuck.exited;
      expect(subjects(await check())).toEqual(["precious"]);
      expect(await unread()).toEqual([]);
    });
  }

  test("read to the end, it is marked read and the process ends", async () => {
    await send("patient", "x".repeat(5_000));
    const { reader, writer } = fullPipe();
    const stuck = startCheck(writer);
    await until("the check has claimed the mail", isClaimed);
    const rest = Buffer.alloc(1 << 20);
    let text = "";
    await until("the pipe has the message", () => {
      text += rest.toString("utf8", 0, unlessBusy(() => readSync(reader, rest)) ?? 0);
      return text.includes("patient");
    });
    expect(await stuck.exited).toBe(0);
    expect(await unread()).toEqual([]);
  });

  test("a reader that goes away has not read it", async () => {
    await send("unseen");
    Bun.spawnSync(["bash", "-c", '"$0" mail check > >(exec true); wait', OVERSEER], {
      cwd: project.path,
      env: cleanEnvironment(),
    });
    const full = await Bun.spawn(["sh", "-c", '"$0" mail check > /dev/full', OVERSEER], {
      cwd: project.path,
      env: cleanEnvironment(),
      stderr: "ignore",
    }).exited;
    expect(full).toBe(1);
    expect(await unread()).toEqual(["unseen"]);
  });

  test("at any moment, a kill loses nothing", async () => {
    for (let round = 0; round < 12; round++) {
      await send(`round ${round}`);
      const victim = Bun.spawn([OVERSEER, "mail", "check", "--json"], {
        cwd: project.path,
        env: cleanEnvironment(),
        stdout: "pipe",
        stderr: "ignore",
      });
      await killAfter(victim, 15 + round * 4);
      const said = await new Response(victim.stdout).text();
      const again = subjects(await check());
      expect(said.includes(`round ${round}`) || again.includes(`round ${round}`)).toBe(true);
    }
  });
});
