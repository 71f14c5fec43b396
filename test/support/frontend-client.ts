import type { RemoteState } from "../../src/assistant/remote/port.ts";
import { connectSessionBus } from "../../src/dbus/connect-session-bus.ts";
import type { BusValue, BusVariant, SessionBus } from "../../src/dbus/port.ts";

const ANSWER_MS_MAX = 30_000;

/** The signals of one query as a frontend received them, in order. */
export interface RecordedTurn {
  readonly queryId: bigint;
  /** The names of the signals, such as `Started` and `Token`. */
  readonly names: string[];
  meta: Record<string, unknown> | undefined;
  text: string;
  readonly specs: Record<string, unknown>[];
  end: { readonly status: string; readonly detail: Record<string, unknown> } | undefined;
}

/** A frontend on the session bus that sends queries and answers, and records the signals that it receives. */
export class FrontendClient implements AsyncDisposable {
  readonly bus: SessionBus;
  readonly #turns = new Map<bigint, RecordedTurn>();
  readonly logins: string[] = [];
  /**
   * Callbacks of the methods that wait for a signal. After each signal, each callback checks whether its wait is over.
   */
  readonly #waiting = new Set<() => void>();

  static async connect(address: string): Promise<FrontendClient> {
    const caller = new FrontendClient(await connectSessionBus({ address, negotiateFds: true }));
    for (const member of ["Started", "Token", "ConfirmationNeeded", "Finished"])
      await caller.bus.onSignal(rule("Overlay1", member), ({ args }) =>
        caller.#record(member, args),
      );
    await caller.bus.onSignal(rule("Remote1", "LoginCompleted"), ({ args: [id, isOk, detail] }) => {
      caller.logins.push(`${textOf(id)} ${isOk === true} ${textOf(detail)}`);
      caller.#notifyWaiters();
    });
    return caller;
  }

  private constructor(bus: SessionBus) {
    this.bus = bus;
  }

  async call(
    name: "Overlay1" | "Remote1",
    member: string,
    signature = "",
    ...args: readonly BusValue[]
  ): Promise<readonly BusValue[]> {
    const { path, sender: destination, interface: iface } = rule(name, member);
    return this.bus.call(
      { destination, path, interface: iface, member, signature, args },
      { signal: new AbortController().signal, timeoutMs: ANSWER_MS_MAX },
    );
  }

  async ask(
    prompt: string,
    options: Readonly<Record<string, string | boolean>> = {},
  ): Promise<RecordedTurn> {
    const given = new Map<string, BusVariant>(
      Object.entries(options).map(([name, value]) => [
        name,
        { signature: typeof value === "string" ? "s" : "b", value },
      ]),
    );
    const [queryId] = await this.call("Overlay1", "Ask", "sa{sv}", prompt, given);
    if (typeof queryId !== "bigint") throw new Error("no query");
    return this.#getTurn(queryId);
  }

  respond(turn: RecordedTurn, isApproved: boolean) {
    return this.call("Overlay1", "Respond", "tb", turn.queryId, isApproved);
  }

  async getRemoteState(): Promise<RemoteState> {
    const [text] = await this.call("Remote1", "State");
    return JSON.parse(textOf(text));
  }

  async waitUntil(what: string, isSo: () => boolean): Promise<void> {
    const deadline = Date.now() + ANSWER_MS_MAX;
    while (!isSo()) {
      if (Date.now() > deadline)
        throw new Error(
          `timed out while waiting for ${what}; ${JSON.stringify(
            [...this.#turns.values()],
            (_, value: unknown) => (typeof value === "bigint" ? String(value) : value),
          )}`,
        );
      await new Promise<void>((resolve) => {
        const wake = () => {
          clearTimeout(timer);
          this.#waiting.delete(wake);
          resolve();
        };
        const timer = setTimeout(wake, 1_000);
        this.#waiting.add(wake);
      });
    }
  }

  async waitForEnd(turn: RecordedTurn): Promise<RecordedTurn> {
    await this.waitUntil(`the end of query ${turn.queryId}`, () => turn.end !== undefined);
    return turn;
  }

  async waitForQuestion(turn: RecordedTurn, count = 1): Promise<Record<string, unknown>> {
    await this.waitUntil(`a question of query ${turn.queryId}`, () => turn.specs.length >= count);
    return turn.specs[count - 1] ?? {};
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.bus[Symbol.asyncDispose]();
  }

  #record(member: string, [queryId, first, second]: readonly BusValue[]): void {
    if (typeof queryId !== "bigint") return;
    const turn = this.#getTurn(queryId);
    turn.names.push(member);
    if (member === "Started") turn.meta = JSON.parse(textOf(first));
    if (member === "Token") turn.text += textOf(first);
    if (member === "ConfirmationNeeded") turn.specs.push(JSON.parse(textOf(first)));
    if (member === "Finished")
      turn.end = { status: textOf(first), detail: JSON.parse(textOf(second)) };
    this.#notifyWaiters();
  }

  #notifyWaiters(): void {
    for (const wake of this.#waiting) wake();
  }

  #getTurn(queryId: bigint): RecordedTurn {
    const found = this.#turns.get(queryId);
    if (found) return found;
    const turn = { queryId, names: [], meta: undefined, text: "", specs: [], end: undefined };
    this.#turns.set(queryId, turn);
    return turn;
  }
}

function rule(name: "Overlay1" | "Remote1", member: string) {
  const full = `dev.assistant.${name}`;
  return {
    path: `/${full.replaceAll(".", "/")}`,
    interface: full,
    member,
    sender: name === "Remote1" ? "dev.assistant.Remoted" : full,
  };
}

function textOf(value: BusValue | undefined): string {
  return typeof value === "string" ? value : "";
}
