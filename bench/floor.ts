import { Database } from "bun:sqlite";

// The least a hook could do: open a WAL database and insert one row.
const db = new Database(process.argv[2]);
db.run("PRAGMA busy_timeout = 10000");
db.run("PRAGMA journal_mode = WAL");
db.run("PRAGMA synchronous = NORMAL");
db.run("INSERT INTO floor (at, text) VALUES (?, ?)", [Date.now(), "one row"]);
