import { once } from "node:events";
import { DBusError, Message, type MessageBus, MessageType, sessionBus, Variant } from "dbus-next";
import { vi } from "vitest";
import type { TestSessionBus } from "./test-session-bus.ts";
import { WAIT_OPTIONS } from "./wait-limits.ts";

export const OVERLAY = "dev.assistant.Overlay1";
const OVERLAY_PATH = "/dev/assistant/Overlay1";
const UI = "dev.assistant.Overlay1.UI";
const BUS = "org.freedesktop.DBus";

export type AskOptions = Readonly<Record<string, boolean | string | number>>;

/** A received message: the answer to Ask with the query's id, a signal, or a call of the frontend's own interface. */
export type ReceivedItem = readonly [kind: string, ...args: readonly unknown[]];

export interface DBusRefusal {
  readonly name: string;
  readonly text: string;
}

/** A frontend that uses dbus-next, which is independent of Berth's own D-Bus implementation. */
export class DbusNextFrontend implements AsyncDisposable {
  readonly name: string;
  readonly received: ReceivedItem[] = [];
  readonly window = { isVisible: false, isMute: false, isBroken: false };
  readonly #bus: MessageBus;

  static async connect(bus: TestSessionBus): Promise<DbusNextFrontend> {
    const connection = sessionBus({ busAddress: bus.address });
    connection.on("error", () => {});
    await once(connection, "connect");
    const client = new DbusNextFrontend(connection);
    const rule = `type='signal',sender='${OVERLAY}',interface='${OVERLAY}'`;
    await client.#ask(
      { path: "/org/freedesktop/DBus", destination: BUS, interface: BUS },
      "AddMatch",
      "s",
      [rule],
    );
    return client;
  }

  private constructor(bus: MessageBus) {
    this.#bus = bus;
    this.name = String(Reflect.get(bus, "name"));
    bus.on("message", (message: Message) => this.#onMessage(message));
    bus.addMethodHandler((message: Message) => this.#onCall(message));
  }

  async call(
    member: string,
    signature = "",
    ...body: readonly unknown[]
  ): Promise<readonly unknown[]> {
    const target = { path: OVERLAY_PATH, destination: OVERLAY, interface: OVERLAY };
    return await this.#ask(target, member, signature, body);
  }

  /** Sends a query, and returns its id. */
  async ask(prompt: string, options: AskOptions = {}): Promise<bigint> {
    const [id] = await this.call("Ask", "sa{sv}", prompt, toVariants(options));
    if (typeof id !== "bigint") throw new Error("Ask did not answer with an id");
    return id;
  }

  /** Returns the error of the call; throws if it succeeds. */
  async getRefusal(
    member: string,
    signature = "",
    ...body: readonly unknown[]
  ): Promise<DBusRefusal> {
    try {
      await this.call(member, signature, ...body);
    } catch (error) {
      if (error instanceof DBusError) return { name: error.type, text: error.text };
      throw error;
    }
    throw new Error(`${member} was answered`);
  }

  /** Sends a call without waiting for its answer. */
  send(member: string, signature: string, ...body: readonly unknown[]): void {
    const target = { path: OVERLAY_PATH, destination: OVERLAY, interface: OVERLAY };
    this.#bus.send(new Message({ ...target, member, signature, body: [...body] }));
  }

  /** Returns all messages received for a query. */
  receivedOfQuery(id: bigint): ReceivedItem[] {
    return this.received.filter((entry) => entry[1] === id);
  }

  /** Returns the names of a query's messages as a text such as `answered Started Token Token Finished`. */
  eventSequence(id: bigint): string {
    return this.receivedOfQuery(id)
      .map(([kind]) => kind)
      .join(" ");
  }

  /** Returns the parsed JSON of the query's last signal of this kind. */
  json(id: bigint, kind: "Started" | "ConfirmationNeeded" | "Finished"): Record<string, unknown> {
    const last = this.receivedOfQuery(id)
      .findLast((entry) => entry[0] === kind)
      ?.at(-1);
    if (typeof last !== "string") throw new Error(`no ${kind} of ${id}: ${this.eventSequence(id)}`);
    return JSON.parse(last);
  }

  async waitFor(id: bigint, kind: string): Promise<void> {
    await vi.waitUntil(() => this.receivedOfQuery(id).some((entry) => entry[0] === kind), {
      timeout: 10_000,
      interval: 2,
    });
  }

  /**
   * Claims the bus name of the frontend. Resolves when this connection owns the name; the bus may not have noticed
   * yet that another owner has disconnected.
   */
  async takeUi(): Promise<void> {
    const flags = 4; // The request does not queue for the name.
    const [owner, alreadyOwner] = [1, 4];
    await vi.waitFor(async () => {
      const answer = await this.#bus.requestName(UI, flags);
      if (answer !== owner && answer !== alreadyOwner) throw new Error(`${UI} is another one's`);
    }, WAIT_OPTIONS);
  }

  async leaveUi(): Promise<void> {
    await this.#bus.releaseName(UI);
  }

  /** Closes the connection while calls are pending. */
  disconnect(): void {
    this.#bus.disconnect();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // The frontend does not answer a call that arrives now, because its connection is about to close.
    this.window.isMute = true;
    this.#bus.disconnect();
  }

  async #ask(
    target: { readonly path: string; readonly destination: string; readonly interface: string },
    member: string,
    signature: string,
    body: readonly unknown[],
  ): Promise<readonly unknown[]> {
    const message = new Message({ ...target, member, signature, body: [...body] });
    return (await this.#bus.call(message))?.body ?? [];
  }

  #onMessage(message: Message): void {
    const { type, member, body, replySerial } = message;
    if (type === MessageType.SIGNAL && message.interface === OVERLAY)
      this.received.push([member ?? "", ...body]);
    if (
      type === MessageType.METHOD_RETURN &&
      replySerial !== undefined &&
      typeof body[0] === "bigint"
    )
      this.received.push(["answered", body[0]]);
  }

  #onCall(message: Message): boolean {
    if (message.interface !== UI) return false;
    const { isVisible, isMute, isBroken } = this.window;
    this.received.push([`ui.${message.member}`, ...message.body]);
    if (isMute) return true;
    if (isBroken) {
      this.#bus.send(
        new Message({
          type: MessageType.ERROR,
          replySerial: String(message.serial),
          destination: message.sender,
          errorName: "org.example.Broken",
          signature: "s",
          body: ["the frontend's secret"],
        }),
      );
      return true;
    }
    const isQuestion = message.member === "GetVisible";
    if (!isQuestion) this.window.isVisible = message.member === "Summon";
    const [signature, body] = isQuestion ? ["b", [isVisible]] : ["", []];
    this.#bus.send(Message.newMethodReturn(message, signature, body));
    return true;
  }
}

export function toVariants(options: AskOptions): Record<string, Variant> {
  return Object.fromEntries(
    Object.entries(options).map(([name, value]) => [name, new Variant(signatureOf(value), value)]),
  );
}

function signatureOf(value: boolean | string | number): string {
  if (typeof value === "number") return "u";
  return typeof value === "boolean" ? "b" : "s";
}
