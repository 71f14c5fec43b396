import { tryParseJson } from "../../base/json.ts";
import type { BusVariant, SessionBus } from "../../dbus/port.ts";
import { BusInterface } from "./bus-interface.ts";
import { parseAnswer, unexpectedAnswer } from "./json-fields.ts";

export interface CallRequest {
  readonly appId: string;
  readonly tool: string;
  /** The arguments as JSON text, exactly as the user wrote it. */
  readonly argsJson: string;
  readonly actor: string | undefined;
  /** The provenance chain; if undefined, the option is not sent. */
  readonly provenance: readonly string[] | undefined;
}

export const dispositions = [
  "executed",
  "failed",
  "denied",
  "confirm-chip",
  "confirm-modal",
] as const;
export type Disposition = (typeof dispositions)[number];
export type CallStatus = "executed" | "failed" | "denied";

/** The answer of the method RequestCall. `detail` is unvalidated JSON. */
export interface CallAnswer {
  readonly callId: bigint;
  readonly disposition: Disposition;
  readonly detail: unknown;
}

export interface CallResult {
  readonly status: CallStatus;
  readonly detail: unknown;
}

export interface AgentListener {
  /**
   * Called when Agent1 asks the user to confirm a call. `spec` is the parsed JSON of the confirmation, without
   * validation.
   */
  confirmationRequested?(callId: bigint, spec: unknown): void;
  callResolved?(callId: bigint, status: string): void;
}

const ANSWER_MS_MAX = 30_000;
/**
 * Time limit of a call: a tool has 60 s, and its app 10 s to start. With a shorter limit the client could miss the
 * result.
 */
const CALL_MS_MAX = 90_000;

/**
 * A client of the interface Agent1. Its methods reject with BerthErrors (see `toBerthError`) and return unvalidated
 * JSON, which `agent-wire.ts` parses.
 */
export class AgentClient {
  readonly #agent: BusInterface;

  constructor(bus: SessionBus) {
    this.#agent = new BusInterface(bus, "dev.assistant.Agent1");
  }

  listTools(signal: AbortSignal): Promise<unknown> {
    return this.#agent.callJson("ListTools", "", [], { signal, timeoutMs: ANSWER_MS_MAX });
  }

  discover(query: string, signal: AbortSignal): Promise<unknown> {
    const limits = { signal, timeoutMs: ANSWER_MS_MAX };
    return this.#agent.callJson("Discover", "s", [query], limits);
  }

  discoverState(signal: AbortSignal): Promise<unknown> {
    return this.#agent.callJson("DiscoverState", "", [], { signal, timeoutMs: ANSWER_MS_MAX });
  }

  async requestCall(request: CallRequest, signal: AbortSignal): Promise<CallAnswer> {
    const { appId, tool, argsJson, actor, provenance } = request;
    const options = new Map<string, BusVariant>();
    if (actor !== undefined) options.set("actor", { signature: "s", value: actor });
    if (provenance !== undefined)
      options.set("provenance", { signature: "as", value: [...provenance] });
    const [callId, disposition, detail] = await this.#agent.call(
      "RequestCall",
      "sssa{sv}",
      [appId, tool, argsJson, options],
      { signal, timeoutMs: CALL_MS_MAX },
    );
    const known = dispositions.find((name) => name === disposition);
    if (typeof callId !== "bigint" || known === undefined) throw unexpectedAnswer(undefined);
    return { callId, disposition: known, detail: parseAnswer(detail) };
  }

  /** Returns the calls that wait for confirmation, oldest first. */
  listParked(signal: AbortSignal): Promise<unknown> {
    return this.#agent.callJson("ListParked", "", [], { signal, timeoutMs: ANSWER_MS_MAX });
  }

  async confirm(callId: bigint, approve: boolean, signal: AbortSignal): Promise<CallResult> {
    const limits = { signal, timeoutMs: CALL_MS_MAX };
    const [status, detail] = await this.#agent.call("Confirm", "tb", [callId, approve], limits);
    if (status !== "executed" && status !== "failed" && status !== "denied")
      throw unexpectedAnswer(undefined);
    return { status, detail: parseAnswer(detail) };
  }

  undo(signal: AbortSignal): Promise<unknown> {
    return this.#agent.callJson("Undo", "", [], { signal, timeoutMs: CALL_MS_MAX });
  }

  /** Tries again to undo a call whose undo has an unknown outcome. */
  undoCall(callId: bigint, signal: AbortSignal): Promise<unknown> {
    return this.#agent.callJson("UndoCall", "t", [callId], { signal, timeoutMs: CALL_MS_MAX });
  }

  undoSkip(callId: bigint, signal: AbortSignal): Promise<unknown> {
    const limits = { signal, timeoutMs: ANSWER_MS_MAX };
    return this.#agent.callJson("UndoSkip", "t", [callId], limits);
  }

  async approveTool(
    appId: string,
    tool: string,
    digest: string,
    signal: AbortSignal,
  ): Promise<void> {
    const limits = { signal, timeoutMs: ANSWER_MS_MAX };
    await this.#agent.call("ApproveTool", "sss", [appId, tool, digest], limits);
  }

  /** Makes this connection the only one that may confirm calls, until it ends. */
  async registerConfirmer(signal: AbortSignal): Promise<void> {
    await this.#agent.call("RegisterConfirmer", "", [], { signal, timeoutMs: ANSWER_MS_MAX });
  }

  /**
   * Subscribes to the signals ConfirmationRequested and CallResolved of Agent1. Resolves when the subscription is
   * active: no signal after that is missed. A ConfirmationRequested whose confirmation is not JSON is ignored.
   */
  async subscribe(listener: AgentListener): Promise<() => void> {
    const requested = await this.#agent.onSignal("ConfirmationRequested", ([callId, spec]) => {
      if (typeof callId !== "bigint" || typeof spec !== "string") return;
      const document = tryParseJson(spec);
      if (document !== undefined) listener.confirmationRequested?.(callId, document);
    });
    const resolved = await this.#agent.onSignal("CallResolved", ([callId, status]) => {
      if (typeof callId === "bigint" && typeof status === "string")
        listener.callResolved?.(callId, status);
    });
    return () => {
      requested();
      resolved();
    };
  }
}
