import type {
  StackDetails,
  StackList,
  StackPlan,
  StackWriteView,
} from "../../resources/wire/stacks.ts";
import { toWriteQuery, type WriteOptions } from "./app-calls.ts";
import { encodeSegment, type QueryParameters, type Transport } from "./transport.ts";

export function stackCalls(transport: Transport) {
  const write = (
    method: "POST" | "DELETE",
    path: string,
    options: WriteOptions,
    query: QueryParameters = {},
  ): Promise<StackWriteView> =>
    transport.json(method, path, {
      query: { ...query, ...toWriteQuery(options) },
      signal: options.signal,
    });
  return {
    list: (signal?: AbortSignal): Promise<StackList> =>
      transport.json("GET", "/api/stacks", { signal }),
    get: (name: string, signal?: AbortSignal): Promise<StackDetails> =>
      transport.json("GET", stackPath(name), { signal }),
    plan: (name: string, signal?: AbortSignal): Promise<StackPlan> =>
      transport.json("GET", stackPath(name, "/plan"), { signal }),
    act: (name: string, verb: "start" | "stop" | "restart", options: WriteOptions = {}) =>
      write("POST", stackPath(name, `/${verb}`), options),
    /** Deletes the apps of the stack; with `deleteVolumes` also their named volumes and the stack's Secrets. */
    delete: (name: string, options: WriteOptions & { deleteVolumes?: boolean } = {}) =>
      write("DELETE", stackPath(name), options, {
        delete_volumes: options.deleteVolumes === true ? true : undefined,
      }),
  };
}

function stackPath(name: string, rest = ""): string {
  return `/api/stacks/${encodeSegment(name)}${rest}`;
}
