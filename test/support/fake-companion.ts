import { raceWithAbort } from "../../src/base/race-with-abort.ts";
import {
  BusCallError,
  type BusMethodCall,
  type BusValue,
  type ReceivedSignal,
  type SessionBus,
} from "../../src/dbus/port.ts";

export type BusAnswer = (
  ...args: readonly BusValue[]
) => readonly BusValue[] | Promise<readonly BusValue[]>;

/** A session bus with a companion that answers as a test defines. Only the companion's names have owners. */
export class FakeCompanion {
  /** The received calls, except those of the bus's own methods. */
  readonly calls: { readonly member: string; readonly args: readonly BusValue[] }[] = [];
  /** The answers by method name. A method that is not listed is unknown. */
  methods: Readonly<Record<string, BusAnswer>>;
  isRunning = true;
  openConnections = 0;
  readonly #listeners = new Set<{ member: string; listener: (signal: ReceivedSignal) => void }>();
  readonly #hangUps = new Set<() => void>();

  constructor(methods: Readonly<Record<string, BusAnswer>> = {}) {
    this.methods = methods;
  }

  readonly open = async (): Promise<SessionBus> => {
    this.openConnections += 1;
    const gone = new AbortController();
    const hangUp = () => {
      if (!this.#hangUps.delete(hangUp)) return;
      this.openConnections -= 1;
      gone.abort(new BusCallError("org.freedesktop.DBus.Error.Disconnected", "the bus is gone"));
    };
    this.#hangUps.add(hangUp);
    return {
      uniqueName: ":1.7",
      closed: new Promise((resolve) => {
        gone.signal.addEventListener("abort", () => resolve(), { once: true });
      }),
      call: async (method, { signal, timeoutMs }) => {
        signal.throwIfAborted();
        gone.signal.throwIfAborted();
        const answer = this.#answer(method);
        return raceWithAbort(answer, signal, gone.signal, createTimeout(timeoutMs));
      },
      onSignal: async ({ member }, listener) => {
        const entry = { member, listener };
        this.#listeners.add(entry);
        return () => this.#listeners.delete(entry);
      },
      [Symbol.asyncDispose]: async () => hangUp(),
    };
  };

  emit(member: string, ...args: readonly BusValue[]): void {
    for (const entry of this.#listeners)
      if (entry.member === member) entry.listener({ sender: ":1.2", args });
  }

  /** Closes every connection to the fake bus. */
  disconnect(): void {
    for (const hangUp of this.#hangUps) hangUp();
  }

  async #answer({ member, destination, args }: BusMethodCall): Promise<readonly BusValue[]> {
    if (member === "NameHasOwner") return [this.isRunning && args[0] === "dev.assistant.Agent1"];
    if (!this.isRunning || !destination.startsWith("dev.assistant."))
      throw new BusCallError(
        "org.freedesktop.DBus.Error.ServiceUnknown",
        `The name ${destination} was not provided by any .service files`,
      );
    this.calls.push({ member, args });
    const answer = this.methods[member];
    if (answer === undefined)
      throw new BusCallError("org.freedesktop.DBus.Error.UnknownMethod", `no ${member}`);
    return answer(...args);
  }
}

function createTimeout(timeoutMs: number): AbortSignal {
  const timeout = new AbortController();
  const noReply = new BusCallError("org.freedesktop.DBus.Error.NoReply", "no answer in time");
  setTimeout(() => timeout.abort(noReply), timeoutMs).unref();
  return timeout.signal;
}
