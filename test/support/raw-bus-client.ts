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

/** A call as it goes over the wire, with all that a polite client would not do. */
export interface RawCall {
  readonly destination: string;
  readonly path: string;
  /** Undefined: the header has none. */
  readonly interface?: string;
  readonly member: string;
  readonly signature?: string;
  readonly body?: readonly unknown[];
  readonly isReplyUnwanted?: boolean;
  /** No call: a signal to one connection, which any program may send in anybody's words. */
  readonly isSignal?: boolean;
}

/** dbus-next as another program has it: an implementation of D-Bus that is not Berth's. */
export class RawBusClient implements AsyncDisposable {
  readonly name: string;
  /** Answers and errors, also those that nobody waits for. */
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

  /** The out arguments; rejects with a DBusError. */
  async call(call: RawCall): Promise<readonly unknown[]> {
    const answer = await this.#bus.call(messageOf(call));
    return answer?.body ?? [];
  }

  /** The name of the error that the call ends with; fails where it ends well. */
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

  /** Leaves the bus in the middle of whatever is under way. */
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
