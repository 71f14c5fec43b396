import type {
  BuildList,
  BuildLogView,
  BuildView,
  UploadedArchiveView,
} from "../../resources/wire/builds.ts";
import { ApiError } from "./api-error.ts";
import { readEvents } from "./server-sent-events.ts";
import { decodeJson, encodeSegment, type Transport } from "./transport.ts";

export function buildCalls(transport: Transport) {
  return {
    /** Returns builds, newest first. */
    list: (app: string, query: { limit?: number; signal?: AbortSignal } = {}): Promise<BuildList> =>
      transport.json("GET", buildPath(app), {
        query: { limit: query.limit },
        signal: query.signal,
      }),
    get: (app: string, id: number, signal?: AbortSignal): Promise<BuildView> =>
      transport.json("GET", buildPath(app, id), { signal }),
    log: (app: string, id: number, signal?: AbortSignal): Promise<BuildLogView> =>
      transport.json("GET", buildPath(app, id, "/log"), { signal }),
    /**
     * Yields all log lines so far, then each new line. Returns the build when it has ended, or undefined if the
     * server ended the stream first.
     */
    async *followLog(
      app: string,
      id: number,
      signal?: AbortSignal,
    ): AsyncGenerator<string, BuildView | undefined> {
      const response = await transport.send("GET", buildPath(app, id, "/log"), {
        query: { follow: true },
        accept: "text/event-stream",
        signal,
      });
      for await (const event of readEvents(response)) {
        if (event.event === "end") return decodeJson<BuildView>(event.data);
        if (event.event === "error") {
          throw new ApiError(503, decodeJson<{ error: string }>(event.data).error);
        }
        if (event.event === "line") yield decodeJson<{ message: string }>(event.data).message;
      }
      return undefined;
    },
    cancel: (app: string, id: number): Promise<BuildView> =>
      transport.json("POST", buildPath(app, id, "/cancel")),
    /** Uploads a gzipped tar archive, to which `source.archive` of an app can refer. */
    upload: (
      archive: AsyncIterable<Uint8Array>,
      signal?: AbortSignal,
    ): Promise<UploadedArchiveView> =>
      transport.json("PUT", "/api/archives", {
        stream: archive,
        headers: { "content-type": "application/gzip" },
        signal,
      }),
  };
}

function buildPath(app: string, id?: number, rest = ""): string {
  return `/api/apps/${encodeSegment(app)}/builds${id === undefined ? "" : `/${id}`}${rest}`;
}
