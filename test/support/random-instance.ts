import { randomBytes } from "node:crypto";

/** As an instance id of Berth: eight hexadecimal characters. */
export function randomInstance(): string {
  return randomBytes(4).toString("hex");
}
