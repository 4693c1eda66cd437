import { customAlphabet } from "nanoid";

// Lower case without look-alikes: people read these aloud and type them.
const ALPHABET = "23456789abcdefghjkmnpqrstuvwxyz";
const short = customAlphabet(ALPHABET, 6);
const long = customAlphabet(ALPHABET, 12);

export const newTaskId = (): string => `t-${short()}`;
export const newMessageId = (): string => `msg-${long()}`;
export const newSessionId = (): string => `ses-${long()}`;
export const newToken = (): string => customAlphabet(`${ALPHABET}ABCDEFGHJKLMNPQRSTUVWXYZ`, 40)();
