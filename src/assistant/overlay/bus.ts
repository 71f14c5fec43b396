import { toText } from "../../dbus/bus-values.ts";
import type { BusValue, BusVariant } from "../../dbus/port.ts";
import { AssistantError } from "../assistant-error.ts";
import type { Bus, ServedInterface } from "../bus/port.ts";
import { parseAskRequest } from "./parse-ask-request.ts";
import type { OverlayService, OverlayStatus } from "./port.ts";

const PATH = "/dev/assistant/Overlay1";
const INTERFACE = "dev.assistant.Overlay1";
const INTERFACE_VERSION = 1;

export interface ServeOverlayOptions {
  readonly bus: Bus;
  readonly service: OverlayService;
  /** The text that the method Ping returns, such as `berth 0.1.0`. */
  readonly daemon: string;
}

/** Exports the overlay on the session bus and returns a function that removes it again. */
export function serveOverlay(options: ServeOverlayOptions): () => void {
  const { bus, service } = options;
  const held = new HeldSignals();
  const remove = bus.serve(PATH, buildOverlayInterface(options, held));
  const emit = (name: string, queryId: number, args: readonly BusValue[], to: string) =>
    held.send(queryId, () => {
      bus.emit({ path: PATH, interface: INTERFACE, name, args: [BigInt(queryId), ...args] }, to);
    });
  const unsubscribe = service.subscribe({
    started: (queryId, meta, to) => emit("Started", queryId, [JSON.stringify(meta)], to),
    token: (queryId, token, to) => emit("Token", queryId, [token], to),
    confirmationNeeded: (queryId, spec, to) =>
      emit("ConfirmationNeeded", queryId, [JSON.stringify(spec)], to),
    finished: (queryId, status, detail, to) =>
      emit("Finished", queryId, [status, JSON.stringify(detail)], to),
  });
  return () => {
    unsubscribe();
    remove();
  };
}

function buildOverlayInterface(
  { bus, service, daemon }: ServeOverlayOptions,
  held: HeldSignals,
): ServedInterface {
  /** The bus connections that have sent a query. Each is watched, because its queries end when it disconnects. */
  const askers = new Set<string>();
  const watch = (connection: string) => {
    if (askers.has(connection)) return;
    askers.add(connection);
    bus.onDisconnect(connection, () => {
      askers.delete(connection);
      service.handleDisconnect(connection);
    });
  };
  return {
    name: INTERFACE,
    methods: {
      Ping: () => [daemon],
      Ask: ({ args: [prompt, options], caller, whenAnswered }) => {
        const queryId = service.ask(parseAskRequest(toText(prompt), options), caller);
        held.hold(queryId);
        whenAnswered(() => held.release(queryId));
        watch(caller.connection);
        return [BigInt(queryId)];
      },
      Cancel: ({ args: [queryId], caller }) => {
        service.cancel(parseQueryId(queryId), caller);
        return [];
      },
      Respond: ({ args: [queryId, approve], caller }) => {
        service.respond(parseQueryId(queryId), approve === true, caller);
        return [];
      },
      RespondTo: ({ args: [queryId, question, approve], caller }) => {
        service.respond(parseQueryId(queryId), approve === true, caller, Number(question));
        return [];
      },
      GetStatus: async () => [toStatusVariants(await service.status())],
      Summon: async ({ args: [prompt] }) => {
        await service.summon(toText(prompt));
        return [];
      },
      Hide: async () => {
        await service.hide();
        return [];
      },
    },
    properties: { Version: () => INTERFACE_VERSION },
  };
}

/**
 * Parses a query id. Throws `not_found` for any other value and for an integer that is not safe, because no query has
 * such an id.
 */
function parseQueryId(value: BusValue | undefined): number {
  if (typeof value === "bigint" && value <= BigInt(Number.MAX_SAFE_INTEGER)) return Number(value);
  throw new AssistantError("not_found", "there is no query with this number");
}

/**
 * Holds back the signals of a query until the answer to its call of Ask was handed to the bus, so that the caller
 * knows the id first. Then sends them in order.
 */
class HeldSignals {
  readonly #held = new Map<number, (() => void)[]>();

  hold(queryId: number): void {
    this.#held.set(queryId, []);
  }

  release(queryId: number): void {
    const signals = this.#held.get(queryId) ?? [];
    this.#held.delete(queryId);
    for (const send of signals) send();
  }

  send(queryId: number, send: () => void): void {
    const held = this.#held.get(queryId);
    if (held) held.push(send);
    else send();
  }
}

const s = (value: string): BusVariant => ({ signature: "s", value });
const u = (value: number): BusVariant => ({ signature: "u", value });
const t = (value: number): BusVariant => ({ signature: "t", value: BigInt(Math.trunc(value)) });
const b = (value: boolean): BusVariant => ({ signature: "b", value });
const as = (value: readonly string[]): BusVariant => ({ signature: "as", value });

/** Returns the answer to GetStatus: each value with the D-Bus type that `dev.assistant.Overlay1.xml` documents. */
function toStatusVariants(status: OverlayStatus): ReadonlyMap<string, BusVariant> {
  const variants: { readonly [Name in keyof OverlayStatus]: BusVariant } = {
    version: s(status.version),
    state: s(status.state),
    active: u(status.active),
    pending_confirmations: u(status.pending_confirmations),
    engine: s(status.engine),
    model: s(status.model),
    model_error: s(status.model_error),
    http_port: u(status.http_port),
    ledger_ok: b(status.ledger_ok),
    ledger_size: t(status.ledger_size),
    index_docs: u(status.index_docs),
    index_state: s(status.index_state),
    window_available: b(status.window_available),
    selection_available: b(status.selection_available),
    consent: as(status.consent),
    providers: as(status.providers),
    uptime_ms: t(status.uptime_ms),
  };
  return new Map(Object.entries(variants));
}
