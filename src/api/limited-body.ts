import { BerthError } from "../base/errors.ts";
import { formatBytes } from "../base/units.ts";

/** Yields a body of unknown length. Throws BerthError `payload_too_large` if it exceeds the limit. */
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
    `the archive is too large: at most ${formatBytes(bytesMax)} are accepted`,
    {
      hint: "use .dockerignore to exclude files that the build does not need, or raise upload_limit",
    },
  );
}
