// The least that Bun can do: start and end.
export {};
