import type {
  ModelDetails,
  ModelDryRunReport,
  ModelList,
  ModelPlanView,
  ModelProgressView,
  ModelStopDryRun,
  ModelView,
} from "../../resources/wire/models.ts";
import { ApiError } from "./api-error.ts";
import { toWriteQuery, type WriteOptions } from "./app-calls.ts";
import { readEvents } from "./server-sent-events.ts";
import {
  decodeJson,
  encodeSegment,
  type QueryParameters,
  readJson,
  type Transport,
} from "./transport.ts";

/** The result of creating, changing or deleting a model. */
export type ModelWriteResult =
  | {
      readonly dryRun: false;
      readonly model: ModelView;
      /**
       * True if `wait` was set, and the time limit expired before the model had reached the requested state or had
       * failed.
       */
      readonly timedOut: boolean;
      /** False if the model already had this state and nothing was written. */
      readonly accepted: boolean;
    }
  | { readonly dryRun: true; readonly report: ModelDryRunReport };

export type ModelStopResult =
  | {
      readonly dryRun: false;
      readonly models: ModelList["models"];
      readonly timedOut: boolean;
      readonly accepted: boolean;
    }
  | { readonly dryRun: true; readonly report: ModelStopDryRun };

/**
 * Creates the client for the REST routes of language models. The id of a model is the name of a Model, a repository id
 * (`org/name`), a repository id with a quantization (`org/name:Q4_K_M`), or the name of a catalog entry.
 */
export function modelCalls(transport: Transport) {
  const write = async (
    method: string,
    path: string,
    options: WriteOptions,
    body?: unknown,
    query: QueryParameters = {},
  ): Promise<ModelWriteResult> => {
    const response = await send(method, path, options, body, query);
    if (options.dryRun === true) {
      return { dryRun: true, report: await readJson<ModelDryRunReport>(response) };
    }
    return {
      dryRun: false,
      model: await readJson<ModelView>(response),
      ...readWriteOutcome(response),
    };
  };

  const send = (
    method: string,
    path: string,
    options: WriteOptions,
    body: unknown,
    query: QueryParameters = {},
  ): Promise<Response> =>
    transport.send(method, path, {
      query: { ...query, ...toWriteQuery(options) },
      ...(body === undefined ? {} : { body }),
      signal: options.signal,
    });

  return {
    /**
     * Returns the Models by name, then the files in the assistant's own folder, then the catalog entries without a
     * Model.
     */
    list: (
      query: {
        limit?: number;
        offset?: number;
        status?: ModelView["status"];
        signal?: AbortSignal;
      } = {},
    ): Promise<ModelList> =>
      transport.json("GET", "/api/llm/models", {
        query: { limit: query.limit, offset: query.offset, status: query.status },
        signal: query.signal,
      }),

    get: (id: string, signal?: AbortSignal): Promise<ModelDetails> =>
      transport.json("GET", modelPath(id), { signal }),

    /**
     * Waits until the model has the state of its newest generation: in memory if it should run, otherwise on disk.
     * `timedOut` is true if `timeoutMs` expired first. Throws ApiError with the reason if the model has failed.
     */
    async waitReady(
      id: string,
      options: { timeoutMs: number; signal?: AbortSignal },
    ): Promise<{ model: ModelDetails; timedOut: boolean }> {
      const deadlineMs = Date.now() + options.timeoutMs;
      for (;;) {
        // fetch aborts after five minutes, so a longer wait is split into several requests.
        const leftMs = Math.max(0, Math.min(deadlineMs - Date.now(), 120_000));
        const response = await transport.send("GET", modelPath(id), {
          query: { wait: true, timeout: `${leftMs}ms` },
          signal: options.signal,
        });
        const model = await readJson<ModelDetails>(response);
        if (response.headers.get("x-berth-wait") !== "timed-out") return { model, timedOut: false };
        if (Date.now() >= deadlineMs) return { model, timedOut: true };
      }
    },

    /** Returns the changes that the next reconcile would make. */
    plan: (id: string, signal?: AbortSignal): Promise<ModelPlanView> =>
      transport.json("GET", modelPath(id, "/plan"), { signal }),

    /** Downloads the model, resumes an interrupted download, or verifies a downloaded model again. */
    download: (id: string, options: WriteOptions = {}): Promise<ModelWriteResult> =>
      write("POST", modelPath(id, "/download"), options),

    /** Loads the model into memory, and downloads it first if needed. */
    start: (model: string, options: WriteOptions = {}): Promise<ModelWriteResult> =>
      write("POST", "/api/llm/start", options, { model }),

    /** Unloads one model, or all models if `model` is undefined. */
    async stop(model?: string, options: WriteOptions = {}): Promise<ModelStopResult> {
      const body = model === undefined ? {} : { model };
      const response = await send("POST", "/api/llm/stop", options, body);
      if (options.dryRun === true) {
        return { dryRun: true, report: await readJson<ModelStopDryRun>(response) };
      }
      const { models } = await readJson<ModelList>(response);
      return { dryRun: false, models, ...readWriteOutcome(response) };
    },

    /**
     * Deletes a model. With `files`, also deletes the files that no other model uses. Without it, these files stay on
     * disk until the disk budget requires their deletion.
     */
    delete: (
      id: string,
      options: WriteOptions & { files?: boolean } = {},
    ): Promise<ModelWriteResult> =>
      write("DELETE", modelPath(id), options, undefined, {
        files: options.files === true ? true : undefined,
      }),

    /**
     * Yields the download's progress at most four times a second. Returns the model when its state is settled (ready,
     * running, failed), or undefined if the server ended the stream first. Throws ApiError if the model is deleted
     * meanwhile.
     */
    async *progress(
      id: string,
      options: { signal?: AbortSignal } = {},
    ): AsyncGenerator<ModelProgressView, ModelView | undefined> {
      const response = await transport.send("GET", modelPath(id, "/progress"), {
        accept: "text/event-stream",
        signal: options.signal,
      });
      for await (const event of readEvents(response)) {
        if (event.event === "end") return decodeJson<ModelView>(event.data);
        if (event.event === "error") {
          throw new ApiError(409, decodeJson<{ error: string }>(event.data).error);
        }
        if (event.event === "progress") yield decodeJson<ModelProgressView>(event.data);
      }
      return undefined;
    },
  };
}

function readWriteOutcome(response: Response): { timedOut: boolean; accepted: boolean } {
  return {
    timedOut: response.headers.get("x-berth-wait") === "timed-out",
    accepted: response.headers.get("x-berth-changed") !== "false",
  };
}

function modelPath(id: string, rest = ""): string {
  return `/api/llm/models/${encodeSegment(id)}${rest}`;
}
