import type { BusValue } from "../../dbus/port.ts";
import { AssistantError } from "../assistant-error.ts";
import type { Bus, ServedInterface } from "../bus/port.ts";
import { HeldSignals } from "./held-signals.ts";
import { parseAskRequest } from "./parse-ask-request.ts";
import type { OverlayService } from "./port.ts";
import { toStatusVariants } from "./status-variants.ts";

const PATH = "/dev/assistant/Overlay1";
const INTERFACE = "dev.assistant.Overlay1";
const INTERFACE_VERSION = 1;

export interface ServeOverlayOptions {
  readonly bus: Bus;
  readonly service: OverlayService;
  /** What Ping answers: `berth 0.1.0`. */
  readonly daemon: string;
}

/** Puts the overlay on the bus. The function that it returns takes it off. */
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
  /** Connections that have asked, and whose leaving is waited for. */
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

/** Ids are numbers that JSON holds exactly; what is larger has never been one. */
function parseQueryId(value: BusValue | undefined): number {
  if (typeof value === "bigint" && value <= BigInt(Number.MAX_SAFE_INTEGER)) return Number(value);
  throw new AssistantError("not_found", "there has never been a query of this number");
}

/** The bus has checked the types. */
function toText(value: BusValue | undefined): string {
  return typeof value === "string" ? value : "";
}
