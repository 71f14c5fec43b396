import type { IncomingMessage } from "node:http";
import type { Clock } from "../../../base/clock.ts";
import type { Bandwidth } from "./bandwidth.ts";
import type { RequestGuard } from "./request-guard.ts";
import type { Claim } from "./segments.ts";

/** Written at once: below a mebibyte the calls cost more than the copying. */
const WRITE_BYTES = 2 ** 20;
/** Or after so long, so that a slow connection's bytes do not wait in memory. */
const WRITE_AFTER_MS = 500;

/** More bytes came than were announced. None of those is written. */
export class TooManyBytes extends Error {}

/**
 * Brings an answer's body to its place, up to `end`, where the answer said that it ends, or to the end of the
 * claim where that has come nearer. What had come before a failure is written. Ends early without an error
 * where the body does: the claim tells how far it is.
 */
export async function receive(
  body: IncomingMessage,
  claim: Claim,
  end: number,
  tools: {
    readonly clock: Clock;
    readonly bandwidth: Bandwidth;
    readonly guard: RequestGuard;
    readonly write: (buffers: readonly Buffer[], position: number) => Promise<void>;
  },
): Promise<void> {
  const { clock, bandwidth, guard } = tools;
  let batch: Buffer[] = [];
  let batchBytes = 0;
  let batchSinceMs = clock.now();
  let writing: Promise<void> | undefined;

  const write = async () => {
    const [buffers, bytes, position] = [batch, batchBytes, claim.received - batchBytes];
    batch = [];
    batchBytes = 0;
    batchSinceMs = clock.now();
    await tools.write(buffers, position);
    claim.written = position + bytes;
  };
  /** One write goes on while the next bytes are read, and no more than one. */
  const writeNext = async () => {
    await writing;
    writing = write();
    // Whoever waits for it next gets the failure.
    writing.catch(() => {});
  };

  try {
    for await (const chunk of body) {
      if (!Buffer.isBuffer(chunk)) continue;
      guard.touch();
      if (claim.received + chunk.length > end) throw new TooManyBytes();
      const bytes = chunk.subarray(0, Math.max(0, claim.end - claim.received));
      claim.received += bytes.length;
      batch.push(bytes);
      batchBytes += bytes.length;
      if (batchBytes >= WRITE_BYTES || clock.now() - batchSinceMs >= WRITE_AFTER_MS)
        await guard.pausedFor(writeNext());
      const wait = bandwidth.take(chunk.length, guard.signal);
      if (wait) await guard.pausedFor(wait);
      // Another connection has taken the rest over. Else the body is read to its end: the connection lives on.
      if (claim.received >= claim.end && claim.end < end) break;
    }
  } finally {
    await guard.pausedFor(
      (async () => {
        await writing;
        if (batchBytes > 0) await write();
      })(),
    );
  }
}
