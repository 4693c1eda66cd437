import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { neutralise, printable } from "../src/domain/mail.ts";

describe("what is shown to a model or on a terminal", () => {
  const anything = fc.oneof(
    fc.string({ unit: "binary", maxLength: 200 }),
    fc.string({
      unit: fc.constantFrom(..."<>/ \t\r\nsu\u001b\u0007\u007f\u009b\u061c\u200b\u202e\u2066\ufeff\ud800"),
      maxLength: 40,
    }),
  );

  test("has no control character but tab and newline, and nothing invisible that turns the text", () => {
    fc.assert(
      fc.property(anything, (text) => {
        for (const shown of [printable(text), neutralise(text)]) {
          expect(shown).not.toMatch(/[^\P{Cc}\t\n]/u);
          expect(shown).not.toMatch(
            /[\u{ad}\u{61c}\u{200b}\u{200e}\u{200f}\u{202a}-\u{202e}\u{2060}-\u{2069}\u{feff}\u{e0000}-\u{e007f}]/u,
          );
          expect(shown.isWellFormed()).toBe(true);
        }
        expect(printable(printable(text))).toBe(printable(text));
      }),
      { numRuns: 2_000 },
    );
  });

  test("neither closes its own tag nor opens one that speaks with another's voice", () => {
    const gap = fc.string({
      unit: fc.constantFrom(" ", "\t", "\n", "\r", "\u00a0", "\u200b", "\u00ad", "\0"),
      maxLength: 3,
    });
    const voice = fc.constantFrom(
      "overseer-mail",
      "OVERSEER-mail",
      "system",
      "System-Reminder",
      "user",
      "assistant",
      "human",
      "function_calls",
      "tool_result",
      "invoke",
      "command-name",
    );
    fc.assert(
      fc.property(
        anything,
        gap,
        fc.constantFrom("", "/"),
        gap,
        voice,
        anything,
        (before, a, slash, b, word, after) => {
          const shown = neutralise(`${before}<${a}${slash}${b}${word}>${after}`);
          expect(shown).not.toMatch(
            /<\s*\/?\s*(?:overseer-|system|user|assistant|human|function|tool|invoke|command-)/i,
          );
        },
      ),
      { numRuns: 2_000 },
    );
  });

  test("is otherwise as it was written", () => {
    const text =
      "if (a < b && c > d) {\n\treturn <T,>(x: T) => <div>é \u{1f468}\u200d\u{1f469} 中文</div>;\n}";
    expect(neutralise(text)).toBe(text);
    expect(neutralise("a\r\nb")).toBe("a\nb");
  });
});
