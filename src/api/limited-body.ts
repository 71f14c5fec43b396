import { BerthError } from "../base/errors.ts";
import { formatBytes } from "../base/units.ts";

/** A body of unknown length, up to a limit. Ends with BerthError `payload_too_large` above it. */
export async function* limitBody(
  body: AsyncIterable<Uint8Array>,
  bytesMax: number,
): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > bytesMax) throw archiveTooLargeError(bytesMax);
    yield chunk;
  }
}

export function archiveTooLargeError(bytesMax: number): BerthError {
  return new BerthError(
    "payload_too_large",
    `the archive is too large: at most ${formatBytes(bytesMax)} are taken`,
    { hint: "leave out with .dockerignore what the build does not need, or raise upload_limit" },
  );
}
