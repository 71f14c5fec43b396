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
import type { WriteOptions } from "./app-calls.ts";
import { readEvents } from "./server-sent-events.ts";
import {
  decodeJson,
  encodeSegment,
  type QueryParameters,
  readJson,
  type Transport,
} from "./transport.ts";

/** What a write of a model came to. */
export type ModelWriteResult =
  | {
      readonly dryRun: false;
      readonly model: ModelView;
      /** With `wait`: the time was over before the model was as asked or had failed. */
      readonly timedOut: boolean;
      /** False where the model was already as asked, and nothing was written. */
      readonly accepted: boolean;
    }
  | { readonly dryRun: true; readonly report: ModelDryRunReport };

/** What a stop came to: of the models that were to run. */
export type ModelStopResult =
  | {
      readonly dryRun: false;
      readonly models: ModelList["models"];
      readonly timedOut: boolean;
      readonly accepted: boolean;
    }
  | { readonly dryRun: true; readonly report: ModelStopDryRun };

/**
 * Language models. An id is the name of a Model, a repository id (`org/name`), one with a quantization
 * (`org/name:Q4_K_M`), or the name of a catalog entry.
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
      query: {
        ...query,
        wait: options.wait === true ? true : undefined,
        timeout: options.timeout,
        dry_run: options.dryRun === true ? true : undefined,
        force: options.force === true ? true : undefined,
      },
      ...(body === undefined ? {} : { body }),
      signal: options.signal,
    });

  return {
    /** Models by name, then files in the assistant's own folder, then what the catalog offers besides. */
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
     * Waits until the model is as its newest generation wants it: in memory where it is to run, else on
     * disk. `timedOut` tells that `timeoutMs` was over first. Throws ApiError with the reason when it has failed.
     */
    async waitReady(
      id: string,
      options: { timeoutMs: number; signal?: AbortSignal },
    ): Promise<{ model: ModelDetails; timedOut: boolean }> {
      const deadlineMs = Date.now() + options.timeoutMs;
      for (;;) {
        // fetch gives up on an answer after five minutes, so a longer wait is made of several.
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

    /** What the next reconcile would do. */
    plan: (id: string, signal?: AbortSignal): Promise<ModelPlanView> =>
      transport.json("GET", modelPath(id, "/plan"), { signal }),

    /** Brings it onto the disk; one that is there is verified again, one that was cut is gone on with. */
    download: (id: string, options: WriteOptions = {}): Promise<ModelWriteResult> =>
      write("POST", modelPath(id, "/download"), options),

    /** Has it loaded into memory, downloaded first where it has to be. */
    start: (model: string, options: WriteOptions = {}): Promise<ModelWriteResult> =>
      write("POST", "/api/llm/start", options, { model }),

    /** Takes it out of memory; without a model, all that are to run. */
    async stop(model?: string, options: WriteOptions = {}): Promise<ModelStopResult> {
      const body = model === undefined ? {} : { model };
      const response = await send("POST", "/api/llm/stop", options, body);
      if (options.dryRun === true) {
        return { dryRun: true, report: await readJson<ModelStopDryRun>(response) };
      }
      const { models } = await readJson<ModelList>(response);
      return { dryRun: false, models, ...readWriteOutcome(response) };
    },

    /** With `files`, its files go too, as far as no other model has them; else they are kept within the budget. */
    delete: (
      id: string,
      options: WriteOptions & { files?: boolean } = {},
    ): Promise<ModelWriteResult> =>
      write("DELETE", modelPath(id), options, undefined, {
        files: options.files === true ? true : undefined,
      }),

    /**
     * How far it is, at most four times a second while something happens. Ends with the model when its state is
     * settled (ready, running, failed), or with undefined where the server ended first. Throws ApiError when
     * the model is deleted meanwhile.
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
