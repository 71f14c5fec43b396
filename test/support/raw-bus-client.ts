import { once } from "node:events";
import {
  DBusError,
  Message,
  type MessageBus,
  MessageFlag,
  MessageType,
  sessionBus,
} from "dbus-next";
import type { TestSessionBus } from "./test-session-bus.ts";

/** A D-Bus call with all header fields, including combinations that a normal client would not send. */
export interface RawCall {
  readonly destination: string;
  readonly path: string;
  /** The D-Bus interface in the message header; undefined if the header has none. */
  readonly interface?: string;
  readonly member: string;
  readonly signature?: string;
  readonly body?: readonly unknown[];
  readonly isReplyUnwanted?: boolean;
  /**
   * If true, the message is a signal to one connection instead of a method call. Any program on the bus may send such a
   * signal, with any content.
   */
  readonly isSignal?: boolean;
}

/** A client that uses dbus-next, which is independent of Berth's own D-Bus implementation. */
export class RawBusClient implements AsyncDisposable {
  readonly name: string;
  /** The number of answers and errors that were received, including unexpected ones. */
  repliesReceived = 0;
  readonly #bus: MessageBus;

  static async connect(bus: TestSessionBus): Promise<RawBusClient> {
    const connection = sessionBus({ busAddress: bus.address });
    connection.on("error", () => {});
    await once(connection, "connect");
    return new RawBusClient(connection);
  }

  private constructor(bus: MessageBus) {
    this.#bus = bus;
    bus.on("message", ({ replySerial }) => {
      if (replySerial !== undefined) this.repliesReceived += 1;
    });
    this.name = String(Reflect.get(bus, "name"));
  }

  /** Makes a call, and returns the out arguments; rejects with a DBusError. */
  async call(call: RawCall): Promise<readonly unknown[]> {
    const answer = await this.#bus.call(messageOf(call));
    return answer?.body ?? [];
  }

  /** Returns the name and text of the error of a call. Throws if the call succeeds. */
  async errorOf(call: RawCall): Promise<{ readonly name: string; readonly text: string }> {
    try {
      await this.call(call);
    } catch (error) {
      if (error instanceof DBusError) return { name: error.type, text: error.text };
      throw error;
    }
    throw new Error(`${call.member} was answered`);
  }

  send(call: RawCall): void {
    this.#bus.send(messageOf(call));
  }

  /** Closes the connection while calls are pending. */
  disconnect(): void {
    this.#bus.disconnect();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#bus.disconnect();
  }
}

function messageOf(call: RawCall): Message {
  const { isReplyUnwanted, isSignal, body, interface: interfaceName, ...rest } = call;
  return new Message({
    ...rest,
    ...(interfaceName === undefined ? {} : { interface: interfaceName }),
    ...(body ? { body: [...body] } : {}),
    ...(isSignal ? { type: MessageType.SIGNAL } : {}),
    ...(isReplyUnwanted ? { flags: MessageFlag.NO_REPLY_EXPECTED } : {}),
  });
}
