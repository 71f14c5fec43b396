import { connectSessionBus } from "../../src/dbus/connect-session-bus.ts";
import {
  BusCallError,
  type BusValue,
  type BusVariant,
  type SessionBus,
} from "../../src/dbus/port.ts";
import type { TestSessionBus } from "./test-session-bus.ts";

const ANSWER_MS_MAX = 60_000;
/** The errors that the bus reports if the daemon died before or during the call. */
const DEAD = /\.Error\.(NoReply|ServiceUnknown|NameHasNoOwner|Disconnected)$/;

export interface ObservedCallDetail {
  readonly code: string;
  readonly message: string;
  readonly result?: { readonly id?: string };
  readonly undoable?: boolean;
  readonly digest?: string;
  readonly ledger?: { readonly seq: number; readonly leaf: string };
  readonly replayed?: boolean;
}

export interface ObservedAnswer {
  readonly callId: bigint;
  /** The disposition of a new call, or the status of a confirmed or undone call. */
  readonly status: string;
  readonly detail: ObservedCallDetail;
}

export interface ObservedUndo {
  readonly status: string;
  readonly call_id: number | null;
  readonly remaining: number;
  readonly unknown: readonly number[];
  readonly ledger: { readonly seq: number; readonly leaf: string } | null;
}

/** A client connection to the companion that stays usable when the daemon dies. */
export class CompanionClient implements AsyncDisposable {
  readonly #bus: SessionBus;
  /** The ledger entries that answers referred to, by sequence number. */
  readonly acknowledged: Map<number, string>;

  static async connect(
    bus: TestSessionBus,
    acknowledged = new Map<number, string>(),
  ): Promise<CompanionClient> {
    const { address } = bus;
    return new CompanionClient(
      await connectSessionBus({ address, negotiateFds: true }),
      acknowledged,
    );
  }

  private constructor(bus: SessionBus, acknowledged: Map<number, string>) {
    this.#bus = bus;
    this.acknowledged = acknowledged;
  }

  /** Calls a tool through RequestCall. Resolves to undefined if the daemon died before it answered. */
  async request(
    app: string,
    tool: string,
    args: object,
    provenance: readonly string[] = ["user"],
  ): Promise<ObservedAnswer | undefined> {
    const options = new Map<string, BusVariant>([
      ["provenance", { signature: "as", value: [...provenance] }],
    ]);
    const body = [app, tool, JSON.stringify(args), options];
    const answer = await this.#undefinedIfDead(this.agent("RequestCall", "sssa{sv}", body));
    return answer && this.#toObservedAnswer(answer[0], answer[1], answer[2]);
  }

  /** Confirms a call. Resolves to undefined if the daemon died before it answered. */
  async confirm(callId: bigint, approve = true): Promise<ObservedAnswer | undefined> {
    const answer = await this.#undefinedIfDead(this.agent("Confirm", "tb", [callId, approve]));
    return answer && this.#toObservedAnswer(callId, answer[0], answer[1]);
  }

  /** Undoes the last call. Resolves to undefined if the daemon died before it answered. */
  async undo(): Promise<ObservedUndo | undefined> {
    const answer = await this.#undefinedIfDead(this.agent("Undo", "", []));
    if (!answer) return undefined;
    const report: ObservedUndo = JSON.parse(assertText(answer[0]));
    if (report.ledger) this.acknowledged.set(report.ledger.seq, report.ledger.leaf);
    return report;
  }

  /** Calls a method of Agent1. Rejects with BusCallError. */
  agent(
    member: string,
    signature: string,
    args: readonly BusValue[],
  ): Promise<readonly BusValue[]> {
    return this.call("Agent1", member, signature, args);
  }

  /** Calls a method of Context1. Rejects with BusCallError. */
  context(
    member: string,
    signature: string,
    args: readonly BusValue[],
  ): Promise<readonly BusValue[]> {
    return this.call("Context1", member, signature, args);
  }

  /** Calls any method. `object` is the interface's own path by default. Rejects with BusCallError. */
  call(
    name: "Agent1" | "Context1" | "Inference1",
    member: string,
    signature: string,
    args: readonly BusValue[],
    object?: { readonly path: string; readonly interface: string },
  ): Promise<readonly BusValue[]> {
    return this.#bus.call(
      {
        destination: `dev.assistant.${name}`,
        path: object?.path ?? `/dev/assistant/${name}`,
        interface: object?.interface ?? `dev.assistant.${name}`,
        member,
        signature,
        args,
      },
      { signal: new AbortController().signal, timeoutMs: ANSWER_MS_MAX },
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#bus[Symbol.asyncDispose]();
  }

  #toObservedAnswer(
    callId: BusValue | undefined,
    status: BusValue | undefined,
    json: BusValue | undefined,
  ): ObservedAnswer {
    if (typeof callId !== "bigint") throw new Error("a call without a number");
    const detail: ObservedCallDetail = JSON.parse(assertText(json));
    if (detail.ledger) this.acknowledged.set(detail.ledger.seq, detail.ledger.leaf);
    return { callId, status: assertText(status), detail };
  }

  async #undefinedIfDead<T>(answer: Promise<T>): Promise<T | undefined> {
    try {
      return await answer;
    } catch (error) {
      if (error instanceof BusCallError && DEAD.test(error.busName)) return undefined;
      throw error;
    }
  }
}

/** Throws if the value is not a string. */
export function assertText(value: BusValue | undefined): string {
  if (typeof value !== "string") throw new Error("the answer has no text in this place");
  return value;
}

/** Returns `answered`, or the name of the error with which the call failed. */
export async function getCallOutcome(call: Promise<unknown>): Promise<string> {
  try {
    await call;
    return "answered";
  } catch (error) {
    if (error instanceof BusCallError) return error.busName;
    throw error;
  }
}
