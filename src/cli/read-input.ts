import type { Readable } from "node:stream";
import { BerthError } from "../base/errors.ts";

/** Reads all of standard input. Throws BerthError `payload_too_large` over `bytesMax`. */
export async function readAll(input: Readable, bytesMax: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of input) {
    const bytes = Buffer.isBuffer(chunk) ? chunk : Buffer.from(String(chunk));
    length += bytes.length;
    if (length > bytesMax)
      throw new BerthError(
        "payload_too_large",
        `standard input contains more than ${bytesMax / 1024 / 1024} MiB`,
      );
    chunks.push(bytes);
  }
  return Buffer.concat(chunks);
}
