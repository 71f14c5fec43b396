import { isAbortError } from "../../base/errors.ts";
import type { Logger } from "../../base/logger.ts";
import {
  type BusConnection,
  type IncomingCall,
  MessageTooLongError,
} from "../../dbus/bus-connection.ts";
import { findDescriptors } from "../../dbus/bus-values.ts";
import { closeFds } from "../../dbus/descriptors.ts";
import type { Frame } from "../../dbus/frame-reader.ts";
import { messageTypes, NO_REPLY_EXPECTED } from "../../dbus/outgoing-message.ts";
import { BusCallError, type BusValue } from "../../dbus/port.ts";
import {
  DuplicateKeyError,
  NoSuchDescriptorError,
  TooManyValuesError,
} from "../../dbus/value-reader.ts";
import { CANCELLED } from "./bus-error-table.ts";
import { BusReplyError } from "./bus-reply-error.ts";
import { type CallTarget, findCallTarget } from "./call-target.ts";
import { type ErrorReply, toErrorReply } from "./error-reply.ts";
import type { ObjectTree } from "./object-tree.ts";
import type { Peer } from "./peer.ts";

const DISCONNECTED = "org.freedesktop.DBus.Error.Disconnected";

interface RouterDependencies {
  readonly objects: ObjectTree;
  readonly getPeer: (connection: string) => Peer;
  readonly machineId: () => Promise<string>;
  readonly logger: Logger;
}

/**
 * Answers method calls. For each call it checks, in this order: the caller's rate; the method and its argument
 * types; the caller's identity; the calls that the caller, or its app, has running. Then it reads the arguments and runs the
 * method. A call is answered exactly once, unless its caller expects no reply or has disconnected.
 */
export class Router {
  readonly #dependencies: RouterDependencies;
  readonly #running = new Set<Promise<void>>();

  constructor(dependencies: RouterDependencies) {
    this.#dependencies = dependencies;
  }

  onCall({ frame, fds }: IncomingCall, connection: BusConnection): void {
    const call: RoutedCall = {
      frame,
      connection,
      peer: this.#dependencies.getPeer(frame.sender ?? ""),
    };
    let target: CallTarget;
    let held: Disposable;
    try {
      call.peer.checkRate();
      target = findCallTarget(frame, this.#dependencies.objects, this.#dependencies.machineId);
      if (!frame.body) throw tooLongError();
      held = call.peer.reserveBytes(frame.body.length);
    } catch (error) {
      closeFds(fds);
      this.#replyError(call, error);
      return;
    }
    // Descriptors that the method does not expect would never be closed, so they are refused.
    const acceptedFds = target.description.inSignature.includes("h") ? fds : [];
    if (acceptedFds.length === 0) closeFds(fds);
    const running = this.#run(call, acceptedFds, target).finally(() => {
      held[Symbol.dispose]();
      this.#running.delete(running);
    });
    this.#running.add(running);
  }

  /** Resolves when no call is running. */
  async waitUntilIdle(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running);
  }

  /** Reads the arguments, runs the method and sends its answer. Never rejects. */
  async #run(call: RoutedCall, fds: readonly number[], target: CallTarget): Promise<void> {
    const { peer } = call;
    let unreadFds = fds;
    let heldForApp: Disposable | undefined;
    let runningSlot: Disposable | undefined;
    const onAnswered: (() => void)[] = [];
    try {
      const caller = await peer.caller();
      heldForApp = peer.countForApp(call.frame.body?.length ?? 0);
      // If the write queue of the connection is full, the method does not run before the queue has drained. Otherwise
      // the method's answer would wait in memory, and a caller with many concurrent calls could make the daemon lose
      // its connection.
      while (call.connection.isFull && !peer.signal.aborted) await call.connection.waitForDrain();
      runningSlot = peer.startCall();
      peer.signal.throwIfAborted();
      const args = readArguments(call, fds);
      unreadFds = [];
      const whenAnswered = (callback: () => void) => void onAnswered.push(callback);
      const outcome = target.run({ caller, args, signal: peer.signal, whenAnswered });
      // A method that returns its values directly is not awaited, so calls of such methods never run at the same
      // time.
      const values = outcome instanceof Promise ? await outcome : outcome;
      while (call.connection.isFull && !peer.signal.aborted) await call.connection.waitForDrain();
      sendAnswer(call, target.description.outSignature, values);
    } catch (error) {
      closeFds(unreadFds);
      this.#replyError(call, error);
    } finally {
      runningSlot?.[Symbol.dispose]();
      heldForApp?.[Symbol.dispose]();
    }
    for (const callback of onAnswered) callback();
  }

  #replyError({ frame, connection, peer }: RoutedCall, error: unknown): void {
    // The connection to the bus was lost, so there is no caller to answer. The daemon logs the loss itself.
    if (error instanceof BusCallError && error.busName === DISCONNECTED) return;
    const isEnding = peer.signal.aborted && (isAbortError(error) || error === peer.signal.reason);
    const reply = isEnding ? shutdownReply : toErrorReply(error);
    const { interface: interfaceName, member, path } = frame;
    if (reply.isUnexpected) {
      this.#dependencies.logger.error(
        { err: error, interface: interfaceName, member, path },
        "a call on the session bus failed",
      );
    }
    if (frame.flags & NO_REPLY_EXPECTED) return;
    connection.send({
      type: messageTypes.error,
      replySerial: frame.serial,
      destination: frame.sender,
      errorName: reply.busName,
      signature: "s",
      args: [reply.text],
    });
  }
}

interface RoutedCall {
  readonly frame: Frame;
  readonly connection: BusConnection;
  readonly peer: Peer;
}

const shutdownReply: ErrorReply = {
  busName: CANCELLED,
  text: "the companion is shutting down",
  isUnexpected: false,
};

function readArguments({ frame, connection }: RoutedCall, fds: readonly number[]): BusValue[] {
  try {
    return connection.read(frame, fds);
  } catch (error) {
    if (error instanceof TooManyValuesError) throw tooLongError();
    if (error instanceof DuplicateKeyError) throw new BusReplyError("InvalidArgs", error.message);
    if (error instanceof NoSuchDescriptorError) {
      throw new BusReplyError(
        "InvalidArgs",
        "the message contains a file descriptor that its method does not accept",
      );
    }
    throw error;
  }
}

/**
 * Sends the answer. Throws TypeError if the values do not fit the interface, and BusReplyError `LimitsExceeded` if
 * the answer is too long.
 */
function sendAnswer(
  { frame, connection }: RoutedCall,
  signature: string,
  args: readonly BusValue[],
): void {
  // If the write queue is still full after the wait for it to drain, the caller has disconnected or the daemon is
  // shutting down.
  if (frame.flags & NO_REPLY_EXPECTED || connection.isFull) {
    closeFds(findDescriptors(signature, args));
    return;
  }
  try {
    connection.send({
      type: messageTypes.answer,
      replySerial: frame.serial,
      destination: frame.sender,
      signature,
      args,
    });
  } catch (error) {
    if (!(error instanceof MessageTooLongError)) throw error;
    throw new BusReplyError(
      "LimitsExceeded",
      "the answer is longer than the 64 MiB of a D-Bus message",
    );
  }
}

function tooLongError(): BusReplyError {
  return new BusReplyError("LimitsExceeded", "the arguments are longer than the limit of 4 MiB");
}
