import { answer } from "./doorbell.ts";
import { handleHook } from "./handle.ts";

answer(handleHook);
