import { closeSync, constants, openSync, readSync, unlinkSync } from "node:fs";
import { Socket } from "node:net";
import { codePointPieces } from "./code-point-pieces.ts";

/** As Linux has it on x86, ARM, RISC-V and POWER; Node does not tell it. */
const O_PATH = 0o10000000;
/** A write of so many bytes goes into a pipe whole, or not at all (PIPE_BUF). */
const ATOMIC_BYTES = 4_096;
/** A pipe holds 1 MiB at most, unless root has said otherwise. */
const UNREAD_BYTES_MAX = 1024 * 1024;

export interface OpenedPipe {
  readonly pipe: SessionPipe;
  /** A descriptor that blocks, as readers of a pipe expect; whoever takes it closes it. */
  readonly readEnd: number;
}

/** Whoever had the read end has closed it, or is gone. */
export class ReaderGoneError extends Error {
  constructor() {
    super("nobody has the read end of the session's pipe any more");
    this.name = "ReaderGoneError";
  }
}

/**
 * The daemon's side of a session's pipe. One read end serves many messages: each of them has a write end of
 * its own, and closing that is the EOF that ends the message. Between messages there is only a handle on the
 * FIFO (O_PATH), which is neither reader nor writer, and from which the next write end is opened.
 *
 * Before the first message a write end is held as well, so that a reader who begins early waits and does
 * not see an EOF.
 */
export class SessionPipe {
  readonly #handle: number;
  #initialWriter: number | undefined;
  #message: PipeMessage | undefined;
  #isClosed = false;

  /** Opens a FIFO and removes its name. Throws what the system says. */
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
      // Both ends at once never waits for the other end; then neither does an end that blocks.
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

  /** Also true where nobody can tell, as no further file can be opened just now. */
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
   * Begins a message; the one before has ended. What nobody has read of that is thrown away, so that two
   * never run together. Throws ReaderGoneError.
   */
  begin(): PipeMessage {
    if (this.#isClosed) throw new ReaderGoneError();
    const writer = openWriter(this.#handle);
    if (this.#initialWriter === undefined) discardUnread(this.#handle);
    this.#closeInitialWriter();
    this.#message = new PipeMessage(writer);
    return this.#message;
  }

  /** EOF for whoever waits for a message, also for one that has not begun. */
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

/** One message on its way to the reader. */
export class PipeMessage {
  readonly #socket: Socket;

  constructor(writer: number) {
    this.#socket = new Socket({ fd: writer, readable: false, writable: true });
    // Each write hears of its own failure.
    this.#socket.on("error", () => {});
  }

  /**
   * Resolves when the pipe has taken it all, which is when the reader has made room. It goes in pieces that
   * a pipe takes whole, so that wherever a message is cut off, it is between two code points. Rejects
   * with ReaderGoneError, also when the message is ended meanwhile.
   */
  async write(text: string): Promise<void> {
    for (const piece of codePointPieces(text, ATOMIC_BYTES)) {
      await new Promise<void>((resolve, reject) => {
        this.#socket.write(piece, (error) => (error ? reject(new ReaderGoneError()) : resolve()));
      });
    }
  }

  /** Closes the write end at once; what the pipe has taken can still be read. Safe to call twice. */
  end(): void {
    this.#socket.destroy();
  }
}

function openWriter(handle: number): number {
  try {
    return openSync(`/proc/self/fd/${handle}`, constants.O_WRONLY | constants.O_NONBLOCK);
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENXIO")
      throw new ReaderGoneError();
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
    // There is nothing to read, and a writer that may write.
    if (!(error instanceof Error && "code" in error && error.code === "EAGAIN")) throw error;
  } finally {
    closeSync(reader);
  }
}
