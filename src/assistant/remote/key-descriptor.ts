import { close, createReadStream, fstat, type Stats } from "node:fs";
import { Socket } from "node:net";
import { promisify } from "node:util";
import { createTimeLimit } from "../../base/time-limit.ts";
import { AssistantError } from "../assistant-error.ts";

const BYTES_MAX = 16 * 1024;
const READ_MS_MAX = 10_000;

/** A key that a client passes as a file descriptor. The descriptor is closed whether or not the key is read. */
export class KeyDescriptor implements Disposable {
  readonly #fd: number;
  #isConsumed = false;

  constructor(fd: number) {
    this.#fd = fd;
  }

  /**
   * Reads the key from a pipe, a socket or a file up to its end. May be called only once. Throws `invalid_request` for
   * other descriptors, for more than 16 KiB, and if the end does not arrive within 10 s.
   */
  read(signal: AbortSignal): Promise<string> {
    this.#isConsumed = true;
    return readKey(this.#fd, signal);
  }

  [Symbol.dispose](): void {
    if (!this.#isConsumed) close(this.#fd, () => {});
  }
}

async function readKey(fd: number, signal: AbortSignal): Promise<string> {
  const found = await promisify(fstat)(fd).catch(() => undefined);
  const stream = found && openStream(fd, found);
  if (!stream) {
    close(fd, () => {});
    throw invalidKeyError("the key has to be passed as a pipe, a socket or a file");
  }
  using limit = createTimeLimit(signal, READ_MS_MAX);
  const stop = () => stream.destroy(new Error("reading the key took too long"));
  // The signal may have aborted while this process inspected the descriptor.
  if (limit.signal.aborted) stop();
  limit.signal.addEventListener("abort", stop, { once: true });
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of stream) {
      if (!Buffer.isBuffer(chunk)) continue;
      bytes += chunk.length;
      if (bytes > BYTES_MAX) throw invalidKeyError(`the key is longer than ${BYTES_MAX} bytes`);
      chunks.push(chunk);
    }
  } catch (error) {
    signal.throwIfAborted();
    if (limit.signal.aborted)
      throw invalidKeyError(
        `the end of the key did not arrive within ${READ_MS_MAX / 1000} s: close the pipe after writing the key`,
      );
    throw error instanceof AssistantError ? error : invalidKeyError("the key cannot be read");
  } finally {
    limit.signal.removeEventListener("abort", stop);
    stream.destroy();
  }
  return Buffer.concat(chunks).toString("utf8");
}

/**
 * Opens the descriptor as a stream. A pipe is read as a socket, because reading it as a file would block a thread until
 * data arrives.
 */
function openStream(fd: number, found: Stats) {
  if (found.isFIFO() || found.isSocket()) return openSocket(fd);
  return found.isFile() ? createReadStream("", { fd, end: BYTES_MAX }) : undefined;
}

/**
 * Opens the pipe or the socket `fd` for reading. Returns undefined for a datagram socket, because such a socket has no
 * end of file.
 */
function openSocket(fd: number): Socket | undefined {
  try {
    return new Socket({ fd, readable: true, writable: false });
  } catch {
    return undefined;
  }
}

function invalidKeyError(message: string): AssistantError {
  return new AssistantError("invalid_request", message, { param: "key" });
}
