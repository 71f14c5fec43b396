import { toText } from "../../dbus/bus-values.ts";
import type { BusValue } from "../../dbus/port.ts";
import { AssistantError } from "../assistant-error.ts";
import type { Bus, ServedInterface } from "../bus/port.ts";
import { readOptions } from "../bus/read-options.ts";
import { trustedProvenance } from "./policy.ts";
import type { AgentService, CallDetail } from "./port.ts";

const PATH = "/dev/assistant/Agent1";
const INTERFACE = "dev.assistant.Agent1";
const INTERFACE_VERSION = 1;

const callOptions = { actor: "s", provenance: "as" } as const;

export interface ServeAgentOptions {
  readonly bus: Bus;
  readonly service: AgentService;
  /** The text that the method Ping returns, such as `berth 0.1.0`. */
  readonly daemon: string;
}

/** Exports the agent on the session bus and returns a function that removes it again. */
export function serveAgent(options: ServeAgentOptions): () => void {
  const { bus, service } = options;
  const remove = bus.serve(PATH, buildAgentInterface(options));
  const unsubscribe = service.subscribe({
    confirmationRequested: (callId, spec) => {
      emit(bus, "ConfirmationRequested", [BigInt(callId), JSON.stringify(spec)]);
    },
    callResolved: (callId, status) => emit(bus, "CallResolved", [BigInt(callId), status]),
  });
  return () => {
    unsubscribe();
    remove();
  };
}

/**
 * Emits a signal to all listeners, because every frontend may show a prompt for the call, and must close the prompt
 * when another frontend has answered.
 */
function emit(bus: Bus, name: string, args: readonly BusValue[]): void {
  bus.emit({ path: PATH, interface: INTERFACE, name, args }, undefined);
}

function buildAgentInterface({ bus, service, daemon }: ServeAgentOptions): ServedInterface {
  /** Connections that have called RegisterConfirmer and whose disconnection is watched. */
  const confirmers = new Set<string>();
  const watch = (connection: string) => {
    if (confirmers.has(connection)) return;
    confirmers.add(connection);
    bus.onDisconnect(connection, () => {
      confirmers.delete(connection);
      service.handleDisconnect(connection);
    });
  };
  return {
    name: INTERFACE,
    methods: {
      Ping: () => [daemon],
      ListTools: () => [JSON.stringify(service.listTools())],
      Discover: async ({ args: [query], signal }) => [
        JSON.stringify(await service.discover(toText(query), signal)),
      ],
      DiscoverState: () => [JSON.stringify(service.discoverState())],
      RequestCall: async ({ args: [appId, tool, argsJson, given], caller, signal }) => {
        const { actor, provenance } = readOptions(callOptions, given);
        const request = {
          appId: toText(appId),
          tool: toText(tool),
          argsJson: toText(argsJson),
          actor,
          provenance,
        };
        const answer = await service.requestCall(request, caller, signal);
        return [BigInt(answer.callId), answer.disposition, JSON.stringify(answer.detail)];
      },
      ListParked: ({ caller }) => [JSON.stringify(service.listParked(caller))],
      Confirm: async ({ args: [callId, approve], caller }) => {
        const id = parseCallId(callId);
        if (id === undefined) return ["failed", JSON.stringify(unknownCallDetail)];
        const { status, detail } = await service.confirm(id, approve === true, caller);
        return [status, JSON.stringify(detail)];
      },
      Undo: async ({ caller }) => [JSON.stringify(await service.undo(caller))],
      UndoCall: async ({ args: [callId], caller }) => {
        const id = parseCallId(callId);
        if (id === undefined) throw noSuchCallError();
        return [JSON.stringify(await service.undoCall(id, caller))];
      },
      UndoSkip: async ({ args: [callId], caller }) => {
        const id = parseCallId(callId);
        if (id === undefined) throw noSuchCallError();
        return [JSON.stringify(await service.undoSkip(id, caller))];
      },
      RegisterConfirmer: async ({ caller }) => {
        const registering = service.registerConfirmer(caller);
        // The connection is watched before the registration is complete, so that a connection that closes meanwhile
        // loses its registration.
        watch(caller.connection);
        await registering;
        return [];
      },
      ApproveTool: async ({ args: [appId, tool, digest], caller }) => {
        await service.approveTool(toText(appId), toText(tool), toText(digest), caller);
        return [];
      },
    },
    properties: {
      TrustedProvenance: () => trustedProvenance,
      Version: () => INTERFACE_VERSION,
    },
  };
}

/** Returns a call id as a number; undefined for a larger number than any call id, or for a value of another type. */
function parseCallId(value: BusValue | undefined): number | undefined {
  return typeof value === "bigint" && value <= BigInt(Number.MAX_SAFE_INTEGER)
    ? Number(value)
    : undefined;
}

const unknownCallDetail: CallDetail = {
  v: 1,
  code: "unknown_call",
  message: "there is no call with this number",
  app_id: "",
  tool: "",
};

function noSuchCallError(): AssistantError {
  return new AssistantError("not_found", unknownCallDetail.message);
}
