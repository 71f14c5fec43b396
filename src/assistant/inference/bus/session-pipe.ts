import { closeSync, constants, openSync, readSync, unlinkSync } from "node:fs";
import { Socket } from "node:net";
import { getErrorCode } from "../../../base/errors.ts";

/** The value of the flag O_PATH on x86, ARM, RISC-V and POWER. Node has no constant for this flag. */
const O_PATH = 0o10000000;
/** The largest size of an atomic write to a pipe (PIPE_BUF). */
const ATOMIC_BYTES = 4_096;
/**
 * The largest amount of unread data that is discarded: the default maximum size of a pipe, 1 MiB, which only root can
 * change.
 */
const UNREAD_BYTES_MAX = 1024 * 1024;

export interface OpenedPipe {
  readonly pipe: SessionPipe;
  /** The descriptor of the read end. It is blocking, as readers of a pipe expect. The receiver must close it. */
  readonly readEnd: number;
}

/** Thrown when the reader has closed its end of the pipe, or has exited. */
export class ReaderGoneError extends Error {
  constructor() {
    super("no process has the read end of the session's pipe any more");
    this.name = "ReaderGoneError";
  }
}

/**
 * The daemon's side of a session's pipe. One read end serves many messages. Each message has its own write end, and
 * closing that end is the EOF that ends the message. Between messages the daemon holds only an O_PATH handle on the
 * FIFO. The handle is neither reader nor writer, and serves to open the next write end.
 *
 * Before the first message the daemon also holds a write end, so that an early reader waits instead of reading EOF.
 */
export class SessionPipe {
  readonly #handle: number;
  #initialWriter: number | undefined;
  #message: PipeMessage | undefined;
  #isClosed = false;

  /** Opens a FIFO and removes its name from the directory. Throws errors of the system. */
  static open(path: string): OpenedPipe {
    const { O_RDWR, O_RDONLY, O_NONBLOCK } = constants;
    const opened: number[] = [];
    const open = (file: string, flags: number) => {
      const descriptor = openSync(file, flags);
      opened.push(descriptor);
      return descriptor;
    };
    try {
      const handle = open(path, O_PATH);
      const self = `/proc/self/fd/${handle}`;
      // Opening a FIFO for reading and writing never blocks. While `both` is open, the FIFO has a writer, so opening
      // the blocking `readEnd` does not block.
      const both = open(self, O_RDWR | O_NONBLOCK);
      const readEnd = open(self, O_RDONLY);
      const early = openWriter(handle);
      opened.push(early);
      unlinkSync(path);
      closeSync(both);
      return { pipe: new SessionPipe(handle, early), readEnd };
    } catch (error) {
      for (const descriptor of opened) closeSync(descriptor);
      throw error;
    }
  }

  private constructor(handle: number, early: number) {
    this.#handle = handle;
    this.#initialWriter = early;
  }

  /**
   * Returns true if a process has the read end open, and also if this is unknown because no more files can be opened.
   */
  hasReader(): boolean {
    if (this.#isClosed) return false;
    try {
      closeSync(openWriter(this.#handle));
      return true;
    } catch (error) {
      return !(error instanceof ReaderGoneError);
    }
  }

  /**
   * Starts a message; the previous message must have ended. Discards unread data of the previous message, so that two
   * messages are never mixed. Throws ReaderGoneError.
   */
  begin(): PipeMessage {
    if (this.#isClosed) throw new ReaderGoneError();
    const writer = openWriter(this.#handle);
    if (this.#initialWriter === undefined) discardUnread(this.#handle);
    this.#closeInitialWriter();
    this.#message = new PipeMessage(writer);
    return this.#message;
  }

  /** Ends the message and sends EOF to the reader, even if the reader waits for a message that has not begun. */
  endMessage(): void {
    this.#closeInitialWriter();
    this.#message?.end();
    this.#message = undefined;
  }

  close(): void {
    if (this.#isClosed) return;
    this.endMessage();
    this.#isClosed = true;
    closeSync(this.#handle);
  }

  #closeInitialWriter(): void {
    if (this.#initialWriter !== undefined) closeSync(this.#initialWriter);
    this.#initialWriter = undefined;
  }
}

/** One message that is being written to the reader. */
export class PipeMessage {
  readonly #socket: Socket;

  constructor(writer: number) {
    this.#socket = new Socket({ fd: writer, readable: false, writable: true });
    // Each write receives its own error. The listener only prevents that an `error` event without a listener ends the
    // process.
    this.#socket.on("error", () => {});
  }

  /**
   * Resolves when the pipe has accepted the whole text, which may require that the reader reads first. The text is
   * written in pieces that a pipe accepts atomically, so that a message can be cut only between two code points.
   * Rejects with ReaderGoneError if the reader closes its end, or if `end` is called during the write.
   */
  async write(text: string): Promise<void> {
    for (const piece of codePointPieces(text, ATOMIC_BYTES)) {
      await new Promise<void>((resolve, reject) => {
        this.#socket.write(piece, (error) => (error ? reject(new ReaderGoneError()) : resolve()));
      });
    }
  }

  /** Closes the write end immediately. The reader can still read the data in the pipe. May be called more than once. */
  end(): void {
    this.#socket.destroy();
  }
}

function openWriter(handle: number): number {
  try {
    return openSync(`/proc/self/fd/${handle}`, constants.O_WRONLY | constants.O_NONBLOCK);
  } catch (error) {
    if (getErrorCode(error) === "ENXIO") throw new ReaderGoneError();
    throw error;
  }
}

function discardUnread(handle: number): void {
  const reader = openSync(`/proc/self/fd/${handle}`, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const unread = Buffer.alloc(64 * 1024);
    let bytes = 0;
    while (bytes < UNREAD_BYTES_MAX) {
      const read = readSync(reader, unread);
      if (read === 0) return;
      bytes += read;
    }
  } catch (error) {
    // EAGAIN means that the non-blocking pipe is empty: all unread data has been read and discarded.
    if (getErrorCode(error) !== "EAGAIN") throw error;
  } finally {
    closeSync(reader);
  }
}

/** Splits a text into UTF-8 pieces of at most `bytesMax` bytes (4 or more), never within a code point. */
export function* codePointPieces(text: string, bytesMax: number): Generator<Buffer> {
  const bytes = Buffer.from(text);
  for (let start = 0; start < bytes.length; ) {
    let end = Math.min(start + bytesMax, bytes.length);
    while (end < bytes.length && isContinuation(bytes[end])) end -= 1;
    yield bytes.subarray(start, end);
    start = end;
  }
}

function isContinuation(byte: number | undefined): boolean {
  return byte !== undefined && (byte & 0b1100_0000) === 0b1000_0000;
}
