import { answer } from "./doorbell.ts";
import { handleToolStart } from "./guard.ts";

answer(handleToolStart);
