import type { Readable } from "node:stream";
import type { Clock } from "../../base/clock.ts";

/** The chunks of a stream without an encoding. */
export async function* readBuffers(stream: Readable): AsyncGenerator<Buffer> {
  for await (const chunk of stream) if (chunk instanceof Buffer) yield chunk;
}

/** A stream that went silent; carries a code so that it reads as an engine that is away. */
class IdleStreamError extends Error {
  readonly code = "ETIMEDOUT";
}

const noop = () => {};

/**
 * Destroys a stream that brings nothing for `silenceMs`, or lasts longer than `totalMs`. Time that
 * the reader takes for a chunk does not count as silence.
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
