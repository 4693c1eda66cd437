import { OverseerError } from "./errors.ts";

/** A state machine as data: for each state, the states it may move to. */
export type Moves<S extends string> = Readonly<Record<S, readonly S[]>>;

export function canMove<S extends string>(moves: Moves<S>, from: S, to: S): boolean {
  return moves[from].includes(to);
}

export function assertMove<S extends string>(moves: Moves<S>, what: string, from: S, to: S): void {
  if (canMove(moves, from, to)) return;
  const legal = moves[from];
  throw new OverseerError("illegal_transition", `${what} is ${from} and cannot become ${to}`, {
    hint: legal.length === 0 ? `${from} is final` : `from ${from} it can become ${legal.join(", ")}`,
  });
}
