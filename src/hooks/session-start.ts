import { answer } from "./doorbell.ts";
import { handleSessionStart } from "./prime.ts";

answer(handleSessionStart);
