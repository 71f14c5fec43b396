import { toText } from "../../dbus/bus-values.ts";
import type { Bus, ServedInterface } from "../bus/port.ts";
import { readOptions } from "../bus/read-options.ts";
import type { ContextService } from "./port.ts";

const PATH = "/dev/assistant/Context1";
const INTERFACE_VERSION = 1;
/** The default number of hits, as the interface Context1 documents it. */
const LIMIT_DEFAULT = 3;

const searchOptions = { limit: "u", hybrid: "b", scopes: "as" } as const;

export interface ContextBusDependencies {
  readonly bus: Bus;
  readonly service: ContextService;
  /** The text that the method Ping returns, such as `berth 0.1.0`. */
  readonly daemon: string;
}

/** Exports search and memory on the session bus and returns a function that removes them again. */
export function serveContext({ bus, service, daemon }: ContextBusDependencies): () => void {
  return bus.serve(PATH, createContextInterface(service, daemon));
}

function createContextInterface(service: ContextService, daemon: string): ServedInterface {
  const { memory } = service;
  return {
    name: "dev.assistant.Context1",
    methods: {
      Ping: () => [daemon],
      Search: async ({ args: [query, given], caller, signal }) => {
        const { limit = LIMIT_DEFAULT, hybrid = false, scopes } = readOptions(searchOptions, given);
        const request = { query: toText(query), limit, isHybrid: hybrid, scopes };
        return [JSON.stringify(await service.search(request, caller, signal))];
      },
      MemoryGet: async ({ args: [app, key], caller }) => [
        await memory.get(toText(app), toText(key), caller),
      ],
      MemorySet: async ({ args: [app, key, value], caller }) => {
        await memory.set(toText(app), toText(key), toText(value), caller);
        return [];
      },
      MemoryList: async ({ args: [app], caller }) => [
        JSON.stringify(Object.fromEntries(await memory.list(toText(app), caller))),
      ],
      MemoryApps: async ({ caller }) => [JSON.stringify(await memory.apps(caller))],
      MemoryWipe: async ({ args: [app], caller }) => {
        await memory.wipe(toText(app), caller);
        return [];
      },
      IndexState: () => [JSON.stringify(service.indexState())],
    },
    properties: { Version: () => INTERFACE_VERSION },
  };
}
