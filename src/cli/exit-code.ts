import { type ErrorKind, OverseerError } from "../domain/errors.ts";

export function exitCodeOf(error: unknown): number {
  return error instanceof OverseerError ? exitCode(error.kind) : 1;
}

function exitCode(kind: ErrorKind): number {
  switch (kind) {
    case "usage":
      return 64;
    case "failed":
      return 1;
    case "missing":
      return 69;
    case "busy":
      return 75;
  }
}
