import { main } from "./cli/program.ts";

// A reader that goes away, such as `overseer events | head`, is no error.
process.stdout.on("error", (error: NodeJS.ErrnoException) => process.exit(error.code === "EPIPE" ? 0 : 1));

// Bun returns from a write to a pipe before anybody has read it. After an error it never resolves: see above.
let written = Promise.resolve();
const writeOut = (text: string) => {
  written = new Promise((resolve) => process.stdout.write(text, (error) => error ?? resolve()));
};

process.exitCode = await main(process.argv.slice(2), {
  env: process.env,
  cwd: workingDirectory(),
  streams: {
    stdout: writeOut,
    stderr: (text) => process.stderr.write(text),
    flushed: () => written,
    isTerminal: process.stdout.isTTY === true,
    isErrorTerminal: process.stderr.isTTY === true,
    columns: process.stdout.columns,
  },
});

/** Empty when the folder was removed under our feet: a command that needs it says so in its own form. */
function workingDirectory(): string {
  try {
    return process.cwd();
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return "";
    throw error;
  }
}
