import type {
  AppDetails,
  AppList,
  AppLogs,
  CreateAppBody,
  DeployBody,
  DryRunReport,
  FromTemplateBody,
  LogLineView,
  PatchAppBody,
  PlanView,
  RevisionList,
  SkippedLogLines,
  SourceDeployConfig,
} from "../../resources/wire/apps.ts";
import { ApiError } from "./api-error.ts";
import { createStreamedForm } from "./multipart.ts";
import { readEvents } from "./server-sent-events.ts";
import {
  decodeJson,
  encodeSegment,
  type QueryParameters,
  type RequestOptions,
  readJson,
  type Transport,
} from "./transport.ts";

export interface WriteOptions {
  /**
   * If true, the server responds only when the app is Ready with this write. If the app fails, the call throws ApiError
   * 409.
   */
  readonly wait?: boolean;
  /** The longest time that the server waits, such as 60s (the default); at most 4m. */
  readonly timeout?: string;
  /** If true, the server computes the changes without making them. */
  readonly dryRun?: boolean;
  /** If true, the write may change fields that spec files own. */
  readonly force?: boolean;
  readonly signal?: AbortSignal;
}

/** The result of creating, changing or deleting an app. */
export type AppWriteResult =
  | {
      readonly dryRun: false;
      readonly app: AppDetails;
      /** True if `wait` was set, and the time limit expired before the app was Ready or had failed. */
      readonly timedOut: boolean;
      /** False if the app already had this state and nothing was written. */
      readonly accepted: boolean;
    }
  | { readonly dryRun: true; readonly report: DryRunReport };

export interface LogQuery {
  /** The number of lines from the end, 1 to 10000. Default: 100. */
  readonly tail?: number;
  /**
   * Only lines from this time on are returned. The time is a duration before now (`10m`), an RFC 3339 time, or Unix
   * seconds.
   */
  readonly since?: string;
  readonly signal?: AbortSignal;
}

export interface FollowLogQuery extends LogQuery {
  /** Called for lines that the server has skipped, because this client reads too slowly. */
  readonly onSkipped?: (lines: SkippedLogLines) => void;
}

export function appCalls(transport: Transport) {
  const write = async (
    method: string,
    path: string,
    options: WriteOptions,
    body?: unknown,
    query: QueryParameters = {},
    upload: Pick<RequestOptions, "stream" | "headers"> = {},
  ): Promise<AppWriteResult> => {
    const response = await transport.send(method, path, {
      query: { ...query, ...toWriteQuery(options) },
      ...(body === undefined ? {} : { body }),
      ...upload,
      signal: options.signal,
    });
    if (options.dryRun === true) {
      return { dryRun: true, report: await readJson<DryRunReport>(response) };
    }
    return {
      dryRun: false,
      app: await readJson<AppDetails>(response),
      timedOut: response.headers.get("x-berth-wait") === "timed-out",
      accepted: response.headers.get("x-berth-changed") !== "false",
    };
  };

  return {
    list: (
      query: { limit?: number; offset?: number; status?: string; signal?: AbortSignal } = {},
    ): Promise<AppList> =>
      transport.json("GET", "/api/apps", {
        query: { limit: query.limit, offset: query.offset, status: query.status },
        signal: query.signal,
      }),

    /** Yields all apps, page by page. */
    async listAll(signal?: AbortSignal): Promise<AppList["apps"]> {
      const apps: AppList["apps"] = [];
      for (;;) {
        const page: AppList = await transport.json("GET", "/api/apps", {
          query: { limit: 1000, offset: apps.length },
          signal,
        });
        apps.push(...page.apps);
        if (page.apps.length === 0 || apps.length >= page.total) return apps;
      }
    },

    get: (name: string, signal?: AbortSignal): Promise<AppDetails> =>
      transport.json("GET", appPath(name), { signal }),

    /**
     * Waits until the app is Ready for its newest generation, or for `generation` if it is given. `timedOut` is true if
     * `timeoutMs` expired first. Throws ApiError 409 with the reason if the app has failed.
     */
    async waitReady(
      name: string,
      options: { timeoutMs: number; generation?: number; signal?: AbortSignal },
    ): Promise<{ app: AppDetails; timedOut: boolean }> {
      const deadlineMs = Date.now() + options.timeoutMs;
      for (;;) {
        // fetch aborts after five minutes, so a longer wait is split into several requests.
        const leftMs = Math.max(0, Math.min(deadlineMs - Date.now(), 120_000));
        const response = await transport.send("GET", appPath(name), {
          query: { wait: true, timeout: `${leftMs}ms`, generation: options.generation },
          signal: options.signal,
        });
        const app = await readJson<AppDetails>(response);
        if (response.headers.get("x-berth-wait") !== "timed-out") return { app, timedOut: false };
        if (Date.now() >= deadlineMs) return { app, timedOut: true };
      }
    },

    /** Waits until the app is deleted. Returns false if `timeoutMs` expired first. */
    async waitDeleted(
      name: string,
      options: { timeoutMs: number; signal?: AbortSignal },
    ): Promise<boolean> {
      const deadlineMs = Date.now() + options.timeoutMs;
      for (;;) {
        const leftMs = Math.max(0, Math.min(deadlineMs - Date.now(), 120_000));
        try {
          await transport.send("GET", appPath(name), {
            query: { wait: "deleted", timeout: `${leftMs}ms` },
            signal: options.signal,
          });
        } catch (error) {
          if (error instanceof ApiError && error.status === 404) return true;
          throw error;
        }
        if (Date.now() >= deadlineMs) return false;
      }
    },

    create: (body: CreateAppBody, options: WriteOptions = {}) =>
      write("POST", "/api/apps", options, body),
    fromTemplate: (body: FromTemplateBody, options: WriteOptions = {}) =>
      write("POST", "/api/apps/from-template", options, body),
    patch: (name: string, body: PatchAppBody, options: WriteOptions = {}) =>
      write("PATCH", appPath(name), options, body),
    delete: (name: string, options: WriteOptions & { deleteVolumes?: boolean } = {}) =>
      write("DELETE", appPath(name), options, undefined, {
        delete_volumes: options.deleteVolumes === true ? true : undefined,
      }),
    deploy: (name: string, body: DeployBody, options: WriteOptions = {}) =>
      write("POST", appPath(name, "/deploy"), options, body),
    /** Creates or changes an app. `source` is a gzipped tar archive, which is sent as a stream. */
    deploySource: (
      config: SourceDeployConfig,
      source: AsyncIterable<Uint8Array>,
      options: WriteOptions = {},
    ): Promise<AppWriteResult> => {
      const { contentType, stream } = createStreamedForm(config, source);
      const headers = { "content-type": contentType };
      return write("POST", "/api/deploy", options, undefined, {}, { stream, headers });
    },
    start: (name: string, options: WriteOptions = {}) =>
      write("POST", appPath(name, "/start"), options),
    stop: (name: string, options: WriteOptions = {}) =>
      write("POST", appPath(name, "/stop"), options),
    restart: (name: string, options: WriteOptions = {}) =>
      write("POST", appPath(name, "/restart"), options),
    retry: (name: string, options: WriteOptions = {}) =>
      write("POST", appPath(name, "/retry"), options),
    rollback: (name: string, revision?: number, options: WriteOptions = {}) =>
      write(
        "POST",
        appPath(name, "/rollback"),
        options,
        revision === undefined ? {} : { revision },
      ),

    revisions: (name: string, signal?: AbortSignal): Promise<RevisionList> =>
      transport.json("GET", appPath(name, "/revisions"), { signal }),
    /** Returns the changes that the next reconcile would make. */
    plan: (name: string, signal?: AbortSignal): Promise<PlanView> =>
      transport.json("GET", appPath(name, "/plan"), { signal }),

    logs: (name: string, query: LogQuery = {}): Promise<AppLogs> =>
      transport.json("GET", appPath(name, "/logs"), {
        query: { tail: query.tail, since: query.since },
        signal: query.signal,
      }),
    async logText(name: string, query: LogQuery = {}): Promise<string> {
      const response = await transport.send("GET", appPath(name, "/logs"), {
        query: { tail: query.tail, since: query.since },
        accept: "text/plain",
        signal: query.signal,
      });
      return response.text();
    },
    /** Yields the last log lines, then each new log line, until the signal aborts or the server ends the stream. */
    async *followLogs(name: string, query: FollowLogQuery = {}): AsyncGenerator<LogLineView> {
      const response = await transport.send("GET", appPath(name, "/logs"), {
        query: { tail: query.tail, since: query.since, follow: true },
        accept: "text/event-stream",
        signal: query.signal,
      });
      for await (const event of readEvents(response)) {
        if (event.event === "error") throw new ApiError(503, readStreamError(event.data));
        if (event.event === undefined || event.event === "line") {
          yield decodeJson<LogLineView>(event.data);
        }
        if (event.event === "skipped") query.onSkipped?.(decodeJson<SkippedLogLines>(event.data));
      }
    },
  };
}

/** Returns the query parameters of a write. */
export function toWriteQuery(options: WriteOptions): QueryParameters {
  return {
    wait: options.wait === true ? true : undefined,
    timeout: options.timeout,
    dry_run: options.dryRun === true ? true : undefined,
    force: options.force === true ? true : undefined,
  };
}

function appPath(name: string, rest = ""): string {
  return `/api/apps/${encodeSegment(name)}${rest}`;
}

function readStreamError(data: string): string {
  const body = decodeJson<{ error?: unknown }>(data);
  return typeof body.error === "string" ? body.error : "the log stream ended with an error";
}
