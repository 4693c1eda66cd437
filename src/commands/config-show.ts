import type { Run } from "../cli/command.ts";

export const run: Run = async (context) => {
  const { config, entries } = await context.project.config();
  const sources = Object.fromEntries(entries.map(({ key, source }) => [key, source]));
  const widest = Math.max(...entries.map(({ key }) => key.length));
  context.output.done({ config, sources }, (style) =>
    entries
      .map(({ key, written, source }) => {
        const value = typeof written === "string" ? written : JSON.stringify(written);
        const from = source === "default" ? style.dim(source) : style.cyan(source);
        return `${style.bold(key.padEnd(widest))}  ${value}  ${from}`;
      })
      .join("\n"),
  );
};
