import type { Readable } from "node:stream";
import type { Clock } from "../../base/clock.ts";

/** Reads a stream as chunks of bytes. */
export async function* readBuffers(stream: Readable): AsyncGenerator<Buffer> {
  for await (const chunk of stream) if (chunk instanceof Buffer) yield chunk;
}

/** Thrown when a stream has timed out. Its code makes the engine count as unreachable. */
class IdleStreamError extends Error {
  readonly code = "ETIMEDOUT";
}

const noop = () => {};

/**
 * Destroys a stream that sends nothing for `silenceMs`, or that lasts longer than `totalMs`. The time that the reader
 * needs does not count as silence.
 */
export function withIdleTimeout(
  clock: Clock,
  stream: Readable,
  limits: { readonly silenceMs: number; readonly totalMs?: number },
): { chunks: AsyncIterable<Buffer>; stop: () => void } {
  let cancelSilence = noop;
  const fail = (what: string) => () => stream.destroy(new IdleStreamError(what));
  const cancelTotal =
    limits.totalMs === undefined
      ? noop
      : clock.setTimer(limits.totalMs, fail("the stream lasts too long"));
  const arm = () => {
    cancelSilence = clock.setTimer(limits.silenceMs, fail("the stream went silent"));
  };
  const stop = () => {
    cancelSilence();
    cancelTotal();
  };
  async function* chunks(): AsyncGenerator<Buffer> {
    arm();
    for await (const chunk of readBuffers(stream)) {
      cancelSilence();
      yield chunk;
      arm();
    }
  }
  return { chunks: chunks(), stop };
}
