import { Database, SQLiteError, type SQLQueryBindings } from "bun:sqlite";
import { OverseerError } from "../../domain/errors.ts";

/** A schema is the list of its migrations; `user_version` counts those that were applied. */
export interface Schema {
  migrations: readonly string[];
  /** The oldest version with all that hooks use; the newest unless given. */
  enoughForHooks?: number;
}

export interface OpenOptions {
  /** A hook makes a missing database but never changes the schema of one that others use. */
  mayUpgrade: boolean;
  /**
   * For a process that ends right after: closing leaves the write-ahead log to the next one, until it has grown. The
   * last to close copies the log into the database and syncs both, which would be paid on every tool call.
   */
  isFleeting?: boolean;
}

/** How a hook opens a database. */
export const FOR_A_HOOK: OpenOptions = { mayUpgrade: false, isFleeting: true };

const BUSY_TIMEOUT_MS = 10_000;
const CREATION_TRIES = 200;
/** Reading a log of this size back takes a tenth of a millisecond. */
const SMALL_LOG_BYTES = 256 * 1024;

export type Bindings = SQLQueryBindings;

/** One open database file. Writers take the write lock at once, so that no transaction fails half-way for it. */
export class Connection {
  readonly #db: Database;
  readonly #file: string;
  readonly #isFleeting: boolean;
  #isReadyToWrite = false;

  private constructor(db: Database, file: string, isFleeting: boolean) {
    this.#db = db;
    this.#file = file;
    this.#isFleeting = isFleeting;
  }

  static open(file: string, schema: Schema, options: OpenOptions): Connection {
    const db = translated(file, () => new Database(file, { readwrite: true, create: true, strict: true }));
    try {
      return translated(file, () => {
        // The timeout comes first: another process may keep whatever follows waiting.
        db.run(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
        const version = userVersion(db);
        if (version !== schema.migrations.length) bringUpToDate(db, file, version, schema, options);
        return new Connection(db, file, options.isFleeting === true);
      });
    } catch (error) {
      db.close();
      throw error;
    }
  }

  all<Row>(sql: string, ...bindings: Bindings[]): Row[] {
    return translated(this.#file, () => this.#db.query<Row, Bindings[]>(sql).all(...bindings));
  }

  first<Row>(sql: string, ...bindings: Bindings[]): Row | null {
    return translated(this.#file, () => this.#db.query<Row, Bindings[]>(sql).get(...bindings));
  }

  run(sql: string, ...bindings: Bindings[]): number {
    return translated(this.#file, () => this.#db.query(sql).run(...bindings).changes);
  }

  write<T>(work: () => T): T {
    return translated(this.#file, () => {
      // Only writers need them, and an inbox that turns out to be empty is not worth two statements.
      if (!this.#isReadyToWrite) this.#db.run("PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON");
      this.#isReadyToWrite = true;
      return inTransaction(this.#db, work);
    });
  }

  check(): string[] {
    const rows = this.all<{ quick_check: string }>("PRAGMA quick_check(5)");
    const lines = rows.flatMap((row) => row.quick_check.split("\n"));
    return lines.filter((line) => line !== "ok" && !line.startsWith("***"));
  }

  close(): void {
    if (this.#isFleeting && Bun.file(`${this.#file}-wal`).size < SMALL_LOG_BYTES) return;
    this.#db.close();
  }
}

function inTransaction<T>(db: Database, work: () => T): T {
  db.run("BEGIN IMMEDIATE");
  try {
    const result = work();
    db.run("COMMIT");
    return result;
  } catch (error) {
    if (db.inTransaction) db.run("ROLLBACK");
    throw error;
  }
}

function userVersion(db: Database): number {
  return db.query<{ user_version: number }, []>("PRAGMA user_version").get()?.user_version ?? 0;
}

function bringUpToDate(
  db: Database,
  file: string,
  version: number,
  schema: Schema,
  options: OpenOptions,
): void {
  const latest = schema.migrations.length;
  const isEnough = !options.mayUpgrade && version >= (schema.enoughForHooks ?? latest);
  if (isEnough && version < latest) return;
  assertUpgradable(file, version, latest, options);
  turnOnWal(db);
  inTransaction(db, () => {
    // Others may have done it while this one waited; writing the number again would cost each of them a sync.
    const from = userVersion(db);
    if (from === latest) return;
    assertUpgradable(file, from, latest, options);
    for (const migration of schema.migrations.slice(from)) db.run(migration);
    db.run(`PRAGMA user_version = ${latest}`);
  });
}

function assertUpgradable(file: string, version: number, latest: number, options: OpenOptions): void {
  if (version > latest) {
    throw new OverseerError(
      "database_newer",
      `${file} has schema ${version}, this overseer knows up to ${latest}`,
      {
        hint: "run it with the newer overseer that wrote it, or update this one",
      },
    );
  }
  if (version > 0 && !options.mayUpgrade) {
    throw new OverseerError("database_outdated", `${file} has the older schema ${version}`, {
      hint: "overseer doctor --fix",
    });
  }
}

// Changing the journal mode does not wait for other processes that are creating the same file; SQLite just says "busy".
function turnOnWal(db: Database): void {
  for (let tries = 1; ; tries++) {
    try {
      db.run("PRAGMA journal_mode = WAL");
      return;
    } catch (error) {
      if (tries === CREATION_TRIES || !isBusy(error)) throw error;
      Bun.sleepSync(Math.min(tries, 50));
    }
  }
}

function isBusy(error: unknown): boolean {
  return error instanceof SQLiteError && (error.code ?? "").startsWith("SQLITE_BUSY");
}

function translated<T>(file: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw error instanceof SQLiteError ? inOurWords(error, file) : error;
  }
}

function inOurWords(error: SQLiteError, file: string): Error {
  const code = error.code ?? "";
  const cause = { cause: error };
  if (code === "SQLITE_NOTADB" || code.startsWith("SQLITE_CORRUPT")) {
    return new OverseerError("database_corrupt", `${file} is damaged (${error.message})`, {
      hint: "overseer doctor --fix",
      ...cause,
    });
  }
  if (code.startsWith("SQLITE_BUSY") || code === "SQLITE_LOCKED") {
    return new OverseerError("database_locked", `${file} is in use by another process`, {
      hint: "try again in a moment",
      ...cause,
    });
  }
  if (code === "SQLITE_FULL") {
    return new OverseerError("disk_full", `${file} cannot grow: the disk is full`, {
      hint: "free some space; nothing was lost",
      ...cause,
    });
  }
  if (/^SQLITE_(READONLY|CANTOPEN|PERM|IOERR)/.test(code)) {
    return new OverseerError("database_unwritable", `${file} cannot be written (${error.message})`, {
      hint: "check that the folder exists and is yours, and that the disk is not full",
      ...cause,
    });
  }
  return error;
}
