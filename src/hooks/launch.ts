import { become, readText } from "../effects/raw-files.ts";

/**
 * What tmux runs in a new pane: `launch.js <file>`. It becomes the program that the file names, with the environment
 * that stands there, so that the pane's process is Claude Code itself, and neither the token nor the user's keys ever
 * stand in an argument list, which every user of the machine can read. The file goes first.
 */
const file = process.argv[2] ?? "";
const text = readText(file);
if (text === null) throw new Error(`there is nothing to launch in ${file}`);
process.getBuiltinModule("node:fs").unlinkSync(file);
const { argv, env, cwd } = JSON.parse(text);
// Not given to tmux: it would take a # in the path for one of its formats, and run what stands in brackets behind it.
process.chdir(cwd);
void become(argv, { ...env, PWD: cwd }).then((code) => {
  process.exitCode = code;
});
