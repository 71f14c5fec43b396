import { getErrorCode } from "../base/errors.ts";
import { raceWithAbort } from "../base/race-with-abort.ts";
import { createTimeLimit } from "../base/time-limit.ts";
import { Authentication } from "./authentication.ts";
import type { BusTransport } from "./bus-transport.ts";
import { findDescriptors, toText } from "./bus-values.ts";
import { closeFds } from "./descriptors.ts";
import { type Frame, FrameReader } from "./frame-reader.ts";
import { writeMessage } from "./message-writer.ts";
import { messageTypes, type OutgoingMessage } from "./outgoing-message.ts";
import { PendingCalls } from "./pending-calls.ts";
import { BusCallError, type BusMethodCall, type BusValue } from "./port.ts";
import { DESCRIPTORS_MAX } from "./socket-calls.ts";
import { readValues, TooManyValuesError } from "./value-reader.ts";

/** If this number of bytes waits to be written, the bus counts as unresponsive and the connection is closed. */
const UNWRITTEN_BYTES_MAX = 256 * 2 ** 20;
/** If this number of bytes waits to be written, senders should wait before they add another large message. */
const FULL_BYTES = 16 * 2 ** 20;
/** The maximum size of a message, which is that of a D-Bus array. A bus disconnects a sender that exceeds it. */
const SENT_BYTES_MAX = 64 * 2 ** 20;
const SERIAL_MAX = 0xffff_ffff;
/** The time limit in which a connection that is closed still writes its waiting messages. */
const FLUSH_MS = 1_000;

const helloCall: BusMethodCall = {
  destination: "org.freedesktop.DBus",
  path: "/org/freedesktop/DBus",
  interface: "org.freedesktop.DBus",
  member: "Hello",
  signature: "",
  args: [],
};

/** Thrown for a message that exceeds a limit, because the bus would disconnect its sender. */
export class MessageTooLongError extends Error {}

/** A received method call. Its file descriptors belong to the receiver, which must close them. */
export interface IncomingCall {
  readonly frame: Frame;
  readonly fds: readonly number[];
}

/** Receives all messages in order, from the first message on, even before `open` resolves. Neither method may throw. */
export interface BusReceiver {
  onCall(call: IncomingCall, connection: BusConnection): void;
  onSignal(frame: Frame, connection: BusConnection): void;
}

export interface BusCallOptions {
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
}

export interface BusConnectionOptions {
  readonly transport: BusTransport;
  readonly receiver: BusReceiver;
  /** User id of this process. */
  readonly uid: number;
  /** Longest body that is received; a message with a longer body is delivered without it. */
  readonly bodyBytesMax: number;
  /** Largest number of values in a received body. */
  readonly valuesMax: number;
}

/**
 * A connection to a bus. Its states are authenticating, open and closed, in this order only. Unexpected input closes
 * the connection or rejects a call, but never throws in an event handler.
 */
export class BusConnection implements AsyncDisposable {
  /** Resolves when the connection is lost or was closed. */
  readonly closed: Promise<void>;
  readonly #options: BusConnectionOptions;
  readonly #pending = new PendingCalls();
  /** Received descriptors that belong to a message that is not complete yet. */
  readonly #fds: number[] = [];
  #uniqueName = "";
  #lossError: Error | undefined;
  #serial = 0;
  #unwrittenMessages = 0;
  #isClosed = false;
  #onFlushed: () => void = () => {};
  /** Callbacks that resolve the promises of `waitForDrain`. */
  #drainWaiters: (() => void)[] = [];
  #onData: (chunk: Buffer) => void = () => {};
  #onLost: () => void = () => {};

  /**
   * Opens a connection over the transport. The connection owns the transport from then on, even if this method rejects.
   * Rejects with BusCallError or the signal's reason.
   */
  static async open(options: BusConnectionOptions & BusCallOptions): Promise<BusConnection> {
    const connection = new BusConnection(options);
    try {
      using limit = createTimeLimit(options.signal, options.timeoutMs);
      await raceWithAbort(connection.#authenticate(options.uid), limit.signal);
      const [name] = await connection.call(helloCall, options);
      connection.#uniqueName = toText(name);
      return connection;
    } catch (error) {
      connection.#options.transport.destroy();
      throw isTimeout(error) && !options.signal.aborted ? noAnswerError(options.timeoutMs) : error;
    }
  }

  private constructor(options: BusConnectionOptions) {
    this.#options = options;
    this.closed = new Promise((resolve) => {
      this.#options.transport.start({
        onFds: (fds) => this.#fds.push(...fds),
        onData: (chunk) => this.#onData(chunk),
        onClosed: (error) => {
          this.#isClosed = true;
          this.#lossError = isClosedByPeer(error) ? undefined : error;
          closeFds(this.#fds.splice(0));
          this.#onLost();
          this.#pending.rejectAll(disconnectedError(error));
          this.#onFlushed();
          this.#notifyDrained();
          resolve();
        },
      });
    });
  }

  get uniqueName(): string {
    return this.#uniqueName;
  }

  /**
   * The error that ended the connection, after `closed` has resolved; undefined if the bus or this side closed it
   * without an error.
   */
  get lossError(): Error | undefined {
    return this.#lossError;
  }

  get canPassFds(): boolean {
    return this.#options.transport.canPassFds;
  }

  /**
   * True if too much data waits to be written. Callers then wait with `waitForDrain` and check again. Sending
   * anyway may lose the connection, which is closed at 256 MiB.
   */
  get isFull(): boolean {
    return !this.#isClosed && this.#options.transport.pendingBytes > FULL_BYTES;
  }

  /**
   * Resolves when a waiting message has been written or the connection is lost. Call this method only while `isFull`.
   */
  waitForDrain(): Promise<void> {
    return new Promise((resolve) => this.#drainWaiters.push(resolve));
  }

  /**
   * Calls a method, with the same result and errors as `SessionBus.call`. `onAnswer` receives the answer before the
   * next message is processed, whereas a callback of the promise would run later.
   */
  async call(
    method: BusMethodCall,
    options: BusCallOptions,
    onAnswer?: (answer: readonly BusValue[]) => void,
  ): Promise<readonly BusValue[]> {
    if (options.signal.aborted || this.#isClosed) {
      closeFds(findDescriptors(method.signature, method.args));
      options.signal.throwIfAborted();
      throw disconnectedError(this.#lossError);
    }
    const serial = this.#nextSerial();
    const answer = new Promise<readonly BusValue[]>((resolve, reject) => {
      this.#pending.add(serial, options, {
        resolve: (values) => {
          onAnswer?.(values);
          resolve(values);
        },
        reject,
      });
    });
    try {
      this.#write({ ...method, type: messageTypes.call }, serial);
    } catch (error) {
      this.#pending.take(serial)?.reject(error);
    }
    return await answer;
  }

  /**
   * Sends a message. Descriptors among its values are closed when they have been sent or cannot be sent. Throws
   * TypeError if the values do not fit the signature, and MessageTooLongError. On a lost connection it does
   * nothing.
   */
  send(message: OutgoingMessage): void {
    this.#write(message, this.#nextSerial());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#unwrittenMessages > 0 && !this.#isClosed) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, FLUSH_MS);
        this.#onFlushed = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    this.#options.transport.destroy();
    await this.closed;
  }

  /** Resolves when the handshake is complete and messages may be sent. */
  #authenticate(uid: number): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#onLost = () => reject(disconnectedError(this.#lossError));
      if (this.#isClosed) this.#onLost();
      const authentication = new Authentication(this.#options.transport, uid);
      const frames = new FrameReader(this.#options.bodyBytesMax, (frame) => this.#onFrame(frame));
      this.#onData = (chunk) => {
        try {
          if (!authentication.feed(chunk)) return;
          this.#onData = (more) => this.#onMessages(frames, more);
          resolve();
        } catch (error) {
          reject(error);
        }
      };
    });
  }

  #onMessages(frames: FrameReader, chunk: Buffer): void {
    try {
      frames.push(chunk);
    } catch {
      // The connection is closed, because the start of the next message cannot be found.
      this.#options.transport.destroy();
    }
  }

  #onFrame(frame: Frame): void {
    const fds = this.#fds.splice(0, frame.fdCount);
    if (frame.type === messageTypes.call) {
      this.#options.receiver.onCall({ frame, fds }, this);
      return;
    }
    if (frame.type === messageTypes.answer) {
      this.#onAnswer(frame, fds);
      return;
    }
    closeFds(fds);
    if (frame.type === messageTypes.signal) this.#options.receiver.onSignal(frame, this);
    else if (frame.type === messageTypes.error) {
      this.#pending.take(frame.replySerial)?.reject(toCallError(frame));
    }
  }

  #onAnswer(frame: Frame, fds: readonly number[]): void {
    const call = this.#pending.take(frame.replySerial);
    if (!call) {
      closeFds(fds);
      return;
    }
    try {
      const values = this.read(frame, fds);
      const used = new Set(findDescriptors(frame.signature, values));
      closeFds(fds.filter((fd) => !used.has(fd)));
      call.resolve(values);
    } catch (error) {
      closeFds(fds);
      call.reject(error instanceof TooManyValuesError ? tooLongError() : unreadableError(error));
    }
  }

  /**
   * Returns the arguments of a message. Throws like `readValues`, and TooManyValuesError if the message was delivered
   * without its body.
   */
  read(frame: Frame, fds: readonly number[]): BusValue[] {
    if (!frame.body) throw new TooManyValuesError("the body is too long");
    return readValues(frame.body, { ...frame, fds, valuesMax: this.#options.valuesMax });
  }

  #write(message: OutgoingMessage, serial: number): void {
    const fds = findDescriptors(message.signature, message.args);
    if (this.#isClosed) {
      closeFds(fds);
      return;
    }
    let bytes: Buffer;
    try {
      bytes = writeMessage(message, serial, fds);
      if (bytes.length > SENT_BYTES_MAX)
        throw new MessageTooLongError("the message is longer than a bus accepts");
      if (fds.length > DESCRIPTORS_MAX)
        throw new MessageTooLongError(
          "the message has more descriptors than one message can carry",
        );
      if (fds.length > 0 && !this.canPassFds)
        throw new TypeError("this connection cannot pass file descriptors");
    } catch (error) {
      closeFds(fds);
      throw error;
    }
    this.#unwrittenMessages += 1;
    this.#options.transport.write(bytes, fds, () => {
      closeFds(fds);
      this.#unwrittenMessages -= 1;
      if (this.#unwrittenMessages === 0) this.#onFlushed();
      this.#notifyDrained();
    });
    if (this.#options.transport.pendingBytes > UNWRITTEN_BYTES_MAX)
      this.#options.transport.destroy();
  }

  #notifyDrained(): void {
    for (const resolve of this.#drainWaiters.splice(0)) resolve();
  }

  #nextSerial(): number {
    this.#serial = this.#serial === SERIAL_MAX ? 1 : this.#serial + 1;
    return this.#serial;
  }
}

function toCallError(frame: Frame): BusCallError {
  let text = "";
  if (frame.signature.startsWith("s") && frame.body) {
    try {
      const options = { endian: frame.endian, fds: [], valuesMax: 1 };
      text = toText(readValues(frame.body, { signature: "s", ...options })[0]);
    } catch {
      // If the text of an error reply cannot be read, the error has no text, only the name of the reply's error.
    }
  }
  return new BusCallError(frame.errorName ?? "org.freedesktop.DBus.Error.Failed", text);
}

function disconnectedError(cause: Error | undefined): BusCallError {
  const text = "the connection to the session bus was lost";
  const error = new BusCallError(
    "org.freedesktop.DBus.Error.Disconnected",
    cause ? `${text}: ${cause.message}` : text,
  );
  error.cause = cause;
  return error;
}

export function noAnswerError(timeoutMs: number): BusCallError {
  return new BusCallError(
    "org.freedesktop.DBus.Error.NoReply",
    `the session bus did not answer within ${timeoutMs} ms`,
  );
}

function tooLongError(): BusCallError {
  return new BusCallError(
    "org.freedesktop.DBus.Error.LimitsExceeded",
    "the answer is longer than this connection accepts",
  );
}

function unreadableError(cause: unknown): BusCallError {
  const error = new BusCallError(
    "org.freedesktop.DBus.Error.InconsistentMessage",
    "the answer cannot be read",
  );
  error.cause = cause;
  return error;
}

function isTimeout(error: unknown): boolean {
  return error instanceof DOMException && error.name === "TimeoutError";
}

/**
 * Returns true for the errors of a message that was sent after the bus had closed the connection, but before this side
 * noticed that.
 */
function isClosedByPeer(error: Error | undefined): boolean {
  return ["EPIPE", "ECONNRESET"].includes(getErrorCode(error) ?? "");
}
