import { open } from "node:fs/promises";
import type { Worker } from "node:worker_threads";
import { getErrorCode, getErrorMessage } from "../../../base/errors.ts";
import { raceWithAbort } from "../../../base/race-with-abort.ts";
import { startWorker } from "../../../base/start-worker.ts";
import { type DigestRequest, type Digests, FileDigest } from "./file-digest.ts";

/**
 * A file that is smaller than this is hashed on the main thread, in steps of a millisecond or two, because a thread
 * takes longer to start.
 */
const INLINE_BYTES_MAX = 32 * 2 ** 20;
const READ_BYTES = 2 ** 20;

export interface HashWorkerData {
  readonly request: DigestRequest;
  /**
   * The number of bytes at the start of the file that are written and may be read. The thread and its creator share it.
   */
  readonly readableBytes: BigInt64Array;
}

/** A message from the thread: the number of bytes hashed so far, or the result. */
export type HashWorkerMessage = number | Digests;

/**
 * Hashes a file that may still be growing. A large file is hashed in a thread, because a gigabyte takes a core for a
 * second. The thread reads only bytes that `advance` has released.
 */
export class FileHash {
  readonly #request: DigestRequest;
  readonly #readableBytes = new BigInt64Array(new SharedArrayBuffer(8));
  readonly #worker: Worker | undefined;
  readonly #digests: Promise<Digests> | undefined;
  #onRead: (bytes: number) => void = () => {};

  constructor(request: DigestRequest) {
    this.#request = request;
    if (request.sizeBytes <= INLINE_BYTES_MAX) return;
    const workerData: HashWorkerData = { request, readableBytes: this.#readableBytes };
    const worker = startWorker("hash-worker", import.meta.url, { workerData });
    this.#worker = worker;
    // The hash thread must not prevent the process from exiting.
    worker.unref();
    this.#digests = new Promise((resolve, reject) => {
      const fail = (why: string) => reject(new Error(`a file could not be hashed: ${why}`));
      worker.on("message", (message: HashWorkerMessage) => {
        if (typeof message === "number") this.#onRead(message);
        else resolve(message);
      });
      worker.on("error", (error) => fail(getErrorCode(error) ?? getErrorMessage(error)));
      worker.on("exit", () => fail("the thread has ended"));
    });
    // Prevents an unhandled rejection: the promise may reject before `finish` is called, or after the hash was
    // cancelled.
    this.#digests.catch(() => {});
  }

  /**
   * Tells the worker that the first `readableBytes` bytes of the file can be hashed. Ignores a number that is not
   * larger than an earlier one.
   */
  advance(readableBytes: number): void {
    const bytes = BigInt(readableBytes);
    if (!this.#worker || Atomics.load(this.#readableBytes, 0) >= bytes) return;
    Atomics.store(this.#readableBytes, 0, bytes);
    Atomics.notify(this.#readableBytes, 0);
  }

  /**
   * Returns the digests once the whole file is hashed. Rejects if the file cannot be read or is shorter than expected.
   */
  async finish(onRead: (bytes: number) => void, signal: AbortSignal): Promise<Digests> {
    if (!this.#digests) return hashInline(this.#request, onRead, signal);
    this.#onRead = onRead;
    this.advance(this.#request.sizeBytes);
    try {
      return await raceWithAbort(this.#digests, signal);
    } finally {
      this.cancel();
    }
  }

  cancel(): void {
    void this.#worker?.terminate();
  }
}

/** Hashes a file to which no process writes any more. FileHash also hashes a file during its download. */
export function hashFile(
  path: string,
  sizeBytes: number,
  onRead: (bytes: number) => void,
  signal: AbortSignal,
): Promise<Digests> {
  return new FileHash({ path, sizeBytes, withGitBlob: false }).finish(onRead, signal);
}

async function hashInline(
  request: DigestRequest,
  onRead: (bytes: number) => void,
  signal: AbortSignal,
): Promise<Digests> {
  const { path, sizeBytes } = request;
  const digest = new FileDigest(request);
  const buffer = Buffer.allocUnsafe(READ_BYTES);
  const file = await open(path, "r");
  try {
    for (let at = 0; at < sizeBytes; ) {
      signal.throwIfAborted();
      const { bytesRead } = await file.read(buffer, 0, Math.min(READ_BYTES, sizeBytes - at), at);
      if (bytesRead === 0) throw new Error(`a file has only ${at} bytes of ${sizeBytes}`);
      digest.update(buffer.subarray(0, bytesRead));
      at += bytesRead;
      onRead(at);
    }
  } finally {
    await file.close();
  }
  return digest.result();
}
