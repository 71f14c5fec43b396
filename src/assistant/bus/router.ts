import { isAbort } from "../../base/errors.ts";
import type { Logger } from "../../base/logger.ts";
import {
  type BusConnection,
  type IncomingCall,
  MessageTooLongError,
} from "../../dbus/connection.ts";
import { closeFds } from "../../dbus/descriptors.ts";
import type { Frame } from "../../dbus/frame-reader.ts";
import { messageTypes, NO_REPLY_EXPECTED } from "../../dbus/outgoing-message.ts";
import type { BusValue } from "../../dbus/port.ts";
import { descriptorsIn, NoSuchDescriptorError, TooManyValuesError } from "../../dbus/values.ts";
import { BusFault } from "./bus-fault.ts";
import { type CallTarget, targetOf } from "./call-target.ts";
import { type ErrorReply, errorReplyOf } from "./error-reply.ts";
import { CANCELLED } from "./error-table.ts";
import type { ObjectTree } from "./object-tree.ts";
import type { Peer } from "./peers.ts";

/**
 * Answers calls. In this order: how fast the caller calls; what is called, and whether the types fit; who
 * calls; how much of the caller's runs already; then the arguments are read, and the method runs. A call
 * is answered exactly once, unless its caller takes no answer or has gone.
 */
export class Router {
  readonly #objects: ObjectTree;
  readonly #peerOf: (connection: string) => Peer;
  readonly #machineId: () => Promise<string>;
  readonly #logger: Logger;
  readonly #running = new Set<Promise<void>>();

  constructor(options: {
    readonly objects: ObjectTree;
    readonly peerOf: (connection: string) => Peer;
    readonly machineId: () => Promise<string>;
    readonly logger: Logger;
  }) {
    this.#objects = options.objects;
    this.#peerOf = options.peerOf;
    this.#machineId = options.machineId;
    this.#logger = options.logger;
  }

  onCall({ frame, fds }: IncomingCall, connection: BusConnection): void {
    const call: RoutedCall = { frame, connection, peer: this.#peerOf(frame.sender ?? "") };
    let target: CallTarget;
    let held: Disposable;
    try {
      call.peer.admit();
      target = targetOf(frame, this.#objects, this.#machineId);
      if (!frame.body) throw tooLong();
      held = call.peer.hold(frame.body.length);
    } catch (error) {
      closeFds(fds);
      this.#refuse(call, error);
      return;
    }
    // Nobody would close what a method does not know of.
    const taken = target.description.inSignature.includes("h") ? fds : [];
    if (taken.length === 0) closeFds(fds);
    const running = this.#run(call, taken, target).finally(() => {
      held[Symbol.dispose]();
      this.#running.delete(running);
    });
    this.#running.add(running);
  }

  /** Resolves when no call is running. */
  async settled(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running);
  }

  /** Never rejects. */
  async #run(call: RoutedCall, fds: readonly number[], target: CallTarget): Promise<void> {
    const { peer } = call;
    let unread = fds;
    let place: Disposable | undefined;
    const onAnswered: (() => void)[] = [];
    try {
      const caller = await peer.caller();
      // A caller that asks for much at once must not cost the daemon its connection. Here too, or the
      // answers would be made and wait in memory.
      while (call.connection.isFull && !peer.signal.aborted) await call.connection.room();
      place = peer.run();
      peer.signal.throwIfAborted();
      const args = argumentsOf(call, fds);
      unread = [];
      const whenAnswered = (callback: () => void) => void onAnswered.push(callback);
      const outcome = target.run({ caller, args, signal: peer.signal, whenAnswered });
      // What is there at once has no need to wait, and so never counts as running beside others.
      const values = outcome instanceof Promise ? await outcome : outcome;
      while (call.connection.isFull && !peer.signal.aborted) await call.connection.room();
      answer(call, target.description.outSignature, values);
    } catch (error) {
      closeFds(unread);
      this.#refuse(call, error);
    } finally {
      place?.[Symbol.dispose]();
    }
    for (const callback of onAnswered) callback();
  }

  #refuse({ frame, connection, peer }: RoutedCall, error: unknown): void {
    const isEnding = peer.signal.aborted && (isAbort(error) || error === peer.signal.reason);
    const reply = isEnding ? ending : errorReplyOf(error);
    const { interface: interfaceName, member, path } = frame;
    if (reply.isUnexpected) {
      this.#logger.error(
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

const ending: ErrorReply = {
  busName: CANCELLED,
  text: "the companion is ending",
  isUnexpected: false,
};

function argumentsOf({ frame, connection }: RoutedCall, fds: readonly number[]): BusValue[] {
  try {
    return connection.read(frame, fds);
  } catch (error) {
    if (error instanceof TooManyValuesError) throw tooLong();
    if (error instanceof NoSuchDescriptorError) {
      throw new BusFault("InvalidArgs", "a file descriptor stands where none is taken");
    }
    throw error;
  }
}

/** Throws a TypeError where the method's values do not fit what its interface says, and BusFault `LimitsExceeded`. */
function answer(
  { frame, connection }: RoutedCall,
  signature: string,
  args: readonly BusValue[],
): void {
  // Full still: the caller has gone, or the daemon ends.
  if (frame.flags & NO_REPLY_EXPECTED || connection.isFull) {
    closeFds(descriptorsIn(signature, args));
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
    throw new BusFault("LimitsExceeded", "the answer is longer than the 64 MiB of a message");
  }
}

function tooLong(): BusFault {
  return new BusFault("LimitsExceeded", "the arguments are longer than the 4 MiB that are taken");
}
