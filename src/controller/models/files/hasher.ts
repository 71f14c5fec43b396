import { open } from "node:fs/promises";
import { type DigestRequest, type Digests, FileDigest } from "./file-digest.ts";
import { type HashJob, HashThread } from "./hash-thread.ts";

/** Up to here starting a thread takes longer than hashing; it happens in steps that last a millisecond or two. */
const INLINE_BYTES_MAX = 32 * 2 ** 20;
const READ_BYTES = 2 ** 20;

/** Reads files and hashes them, without holding up the event loop. */
export class Hasher implements AsyncDisposable {
  readonly #thread = new HashThread();

  /** `sizeBytes` as far as it is known; a job may be opened before the file is whole. */
  open(path: string, sizeBytes: number | null, wanted: DigestRequest): HashJob {
    return sizeBytes !== null && sizeBytes <= INLINE_BYTES_MAX
      ? createInlineJob(path, wanted)
      : this.#thread.open(path, wanted);
  }

  /** Of a file that is whole. */
  hash(
    path: string,
    sizeBytes: number,
    wanted: DigestRequest,
    onRead: (bytes: number) => void,
    signal: AbortSignal,
  ): Promise<Digests> {
    return this.open(path, sizeBytes, wanted).finish(sizeBytes, onRead, signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#thread[Symbol.asyncDispose]();
  }
}

function createInlineJob(path: string, wanted: DigestRequest): HashJob {
  return {
    advance: () => {},
    cancel: () => {},
    finish: async (sizeBytes, onRead, signal) => {
      const digest = new FileDigest(wanted);
      const file = await open(path, "r");
      try {
        const buffer = Buffer.allocUnsafe(READ_BYTES);
        for (let at = 0; at < sizeBytes; ) {
          signal.throwIfAborted();
          const length = Math.min(READ_BYTES, sizeBytes - at);
          const { bytesRead } = await file.read(buffer, 0, length, at);
          if (bytesRead === 0) throw new Error(`a file has only ${at} bytes of ${sizeBytes}`);
          digest.update(buffer.subarray(0, bytesRead));
          at += bytesRead;
          onRead(at);
        }
      } finally {
        await file.close();
      }
      return digest.result();
    },
  };
}
