import { setTimeout } from "node:timers/promises";
import { BerthError } from "../../base/errors.ts";
import { ApiError } from "../../client/rest/api-error.ts";
import type { Client } from "../../client/rest/client.ts";
import type { ModelDetails, ModelProgressView } from "../../resources/wire/models.ts";
import type { Cli } from "../cli.ts";
import { timeoutError } from "../cli-errors.ts";
import { formatDurationMs } from "../format-time.ts";
import { TransferProgress } from "../output/transfer-progress.ts";

/** The pause before a new stream replaces one that the server has ended. */
const RECONNECT_MS = 250;

export interface FollowOptions {
  /** The state to wait for. disk: downloaded and verified. memory: serving requests. */
  readonly until: "disk" | "memory";
  /** The time limit in milliseconds; Infinity means that there is no limit. */
  readonly timeoutMs: number;
  /** If true, no progress is shown. */
  readonly isQuiet: boolean;
  /** Aborts when the user stops following. */
  readonly signal: AbortSignal;
}

/**
 * Shows the progress of a model until it is on disk or in memory. Throws BerthError `wrong_state` with the reason if
 * the model has failed, `insufficient_memory` if it waits for memory that other models use, `timeout` if the time is
 * over, and the signal's reason when it aborts.
 */
export async function followModel(
  cli: Cli,
  client: Client,
  name: string,
  options: FollowOptions,
): Promise<ModelDetails> {
  const timeLimit = new AbortController();
  const timer = startTimer(options.timeoutMs, () => timeLimit.abort());
  const signal = AbortSignal.any([options.signal, timeLimit.signal]);
  const view = new ModelProgressDisplay(cli, options.isQuiet);
  try {
    for (;;) {
      const isSettled = await showProgress(client, name, view, signal);
      const model = await client.models.get(name, signal);
      if (hasReached(model, options.until)) {
        view.showArrival(model, options.until);
        return model;
      }
      if (isSettled) throw modelFailedError(model);
      // The server has ended the stream, perhaps for a restart.
      await setTimeout(RECONNECT_MS, undefined, { signal });
    }
  } catch (error) {
    if (options.signal.aborted || !timeLimit.signal.aborted) throw explainConflict(name, error);
    const model = await client.models.get(name);
    throw timeoutError(
      `model "${name}" is not ${options.until === "disk" ? "on disk" : "running"} after ${formatDurationMs(options.timeoutMs)}: ${model.status}${model.message === "" ? "" : `, ${model.message}`}`,
      `the server continues: \`berth models ls\` shows the progress; or wait longer: --timeout 1h`,
    );
  } finally {
    clearTimeout(timer);
    view.end();
  }
}

/** The longest delay of setTimeout. With a longer delay, setTimeout would call back at once. */
const TIMER_MS_MAX = 2 ** 31 - 1;

function startTimer(timeoutMs: number, end: () => void): NodeJS.Timeout | undefined {
  return timeoutMs > TIMER_MS_MAX ? undefined : globalThis.setTimeout(end, timeoutMs);
}

/** Shows the stream of progress; resolves to true if the server reported that the model's state is final. */
async function showProgress(
  client: Client,
  name: string,
  view: ModelProgressDisplay,
  signal: AbortSignal,
): Promise<boolean> {
  const progress = client.models.progress(name, { signal });
  for (;;) {
    const event = await progress.next();
    if (event.done === true) return event.value !== undefined;
    view.show(event.value);
  }
}

function hasReached(model: ModelDetails, until: FollowOptions["until"]): boolean {
  // The status of an older generation says nothing about the current spec.
  if ((model.observed_generation ?? 0) < (model.generation ?? 0)) return false;
  if (model.status === "running") return true;
  return until === "disk" && (model.status === "ready" || model.status === "starting");
}

function modelFailedError({ name, status, message, error }: ModelDetails): BerthError {
  const reason = error ?? message;
  if (status === "failed")
    return new BerthError("wrong_state", `model "${name}" has failed: ${reason}`, {
      hint: `\`berth models show ${name}\` shows details; run the same command to try again`,
    });
  if (status === "ready")
    return new BerthError("insufficient_memory", `model "${name}" does not run: ${reason}`, {
      hint: `the model starts by itself when memory is free: \`berth models ls\` shows the use of memory, \`berth status\` the state of the assistant`,
    });
  return new BerthError("wrong_state", `model "${name}" is ${status}: ${reason}`, {
    hint: `\`berth models show ${name}\` shows details`,
  });
}

function explainConflict(name: string, error: unknown): unknown {
  if (!(error instanceof ApiError) || error.status !== 409) return error;
  return new BerthError("wrong_state", error.message, {
    hint: `\`berth models show ${name}\``,
    cause: error,
  });
}

/** Displays the progress of a model on standard error. */
class ModelProgressDisplay {
  readonly #progress: TransferProgress | undefined;
  #shownError = "";
  #hasShownBytes = false;

  constructor(cli: Cli, isQuiet: boolean) {
    const { io } = cli;
    this.#progress = isQuiet
      ? undefined
      : new TransferProgress({
          write: (text) => io.writeError(text),
          isTerminal: io.errorIsTerminal,
          columns: () => io.columns,
          nowMs: io.now,
          dim: cli.errorColours.dim,
        });
  }

  show(view: ModelProgressView): void {
    const activity = activityText(view);
    // An error that is followed by a retry stays visible on its own line; the last error ends the command.
    const isFinal = view.status === "failed" && view.next_retry_at === null;
    if (view.error !== null && view.error !== this.#shownError && !isFinal)
      this.#progress?.printLine(`${view.name}: ${view.error}`);
    this.#shownError = view.error ?? "";
    if (activity === undefined) return;
    const isCounted = view.step === "downloading" || view.step === "verifying";
    const total = isCounted ? view.size_bytes : null;
    this.#hasShownBytes ||= isCounted;
    this.#progress?.show({
      // The bar starts again at 0 for the verification, so the label names it.
      label: view.step === "verifying" ? `${view.name} checking` : view.name,
      activity,
      doneBytes: doneBytes(view, isCounted),
      totalBytes: total,
      bytesPerSecond: isCounted ? view.bytes_per_second : null,
    });
  }

  /** Shows the transfer as complete, because the last progress event was sent before the transfer ended. */
  showArrival({ name, size_bytes: size }: ModelDetails, until: FollowOptions["until"]): void {
    if (until === "memory") this.#progress?.end(true);
    else if (this.#hasShownBytes && size !== null)
      this.#progress?.show({
        label: name,
        activity: "on disk",
        doneBytes: size,
        totalBytes: size,
        bytesPerSecond: null,
      });
  }

  end(): void {
    this.#progress?.end();
  }
}

function doneBytes(view: ModelProgressView, isCounted: boolean): number {
  if (!isCounted) return 0;
  if (view.step === "downloading" || view.size_bytes === null) return view.downloaded_bytes;
  // During verification the whole file is on disk, so the bytes that were verified are shown.
  return Math.round(view.progress * view.size_bytes);
}

/** Describes the current activity; undefined if there is none. */
function activityText({ step, status }: ModelProgressView): string | undefined {
  if (step === "resolving") return "asking the source ...";
  if (step === "waiting") return "waiting for another download ...";
  if (step === "verifying") return "checking ...";
  if (step === "downloading") return "downloading ...";
  if (status === "starting") return "loading ...";
  if (status === "stopping") return "unloading ...";
  return undefined;
}
