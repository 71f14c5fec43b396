import { randomBytes } from "node:crypto";

/** Returns a random instance id in Berth's format: eight hexadecimal characters. */
export function randomInstance(): string {
  return randomBytes(4).toString("hex");
}
