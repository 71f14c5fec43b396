import { setTimeout } from "node:timers/promises";
import { BerthError } from "../../base/errors.ts";
import { ApiError } from "../../client/rest/api-error.ts";
import type { Client } from "../../client/rest/client.ts";
import type { ModelDetails, ModelProgressView } from "../../resources/wire/models.ts";
import type { Cli } from "../cli.ts";
import { timeoutError } from "../cli-errors.ts";
import { formatDurationMs } from "../format-time.ts";
import { TransferProgress } from "../output/transfer-progress.ts";

/** Between two streams of a server that ends them. */
const RECONNECT_MS = 250;

export interface FollowOptions {
  /** disk: whole and verified there. memory: it answers. */
  readonly until: "disk" | "memory";
  /** Infinity: as long as it takes. */
  readonly timeoutMs: number;
  /** Nothing is shown meanwhile. */
  readonly isQuiet: boolean;
  /** Of the person who follows it. */
  readonly signal: AbortSignal;
}

/**
 * Shows how a model comes onto the disk, or into memory, until it is there. Throws BerthError `wrong_state`
 * with the reason when it has failed, or waits for memory that others have; `timeout` when time was over; the
 * signal's abort.
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
      // The server ended first, and may be back already.
      await setTimeout(RECONNECT_MS, undefined, { signal });
    }
  } catch (error) {
    if (options.signal.aborted || !timeLimit.signal.aborted) throw explainConflict(name, error);
    const model = await client.models.get(name);
    throw timeoutError(
      `model "${name}" is not ${options.until === "disk" ? "on disk" : "running"} after ${formatDurationMs(options.timeoutMs)}: ${model.status}${model.message === "" ? "" : `, ${model.message}`}`,
      `it goes on: \`berth models ls\` shows it; or wait longer: --timeout 1h`,
    );
  } finally {
    clearTimeout(timer);
    view.end();
  }
}

/** setTimeout ends at 24 days, and calls back at once for more. */
const TIMER_MS_MAX = 2 ** 31 - 1;

function startTimer(timeoutMs: number, end: () => void): NodeJS.Timeout | undefined {
  return timeoutMs > TIMER_MS_MAX ? undefined : globalThis.setTimeout(end, timeoutMs);
}

/** True where the server has said that nothing more happens to the model by itself. */
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
  // A status of an older generation says nothing of this one.
  if ((model.observed_generation ?? 0) < (model.generation ?? 0)) return false;
  if (model.status === "running") return true;
  return until === "disk" && (model.status === "ready" || model.status === "starting");
}

function modelFailedError({ name, status, message, error }: ModelDetails): BerthError {
  const reason = error ?? message;
  if (status === "failed")
    return new BerthError("wrong_state", `model "${name}" has failed: ${reason}`, {
      hint: `\`berth models show ${name}\` tells more; the same command again tries again`,
    });
  if (status === "ready")
    return new BerthError("insufficient_memory", `model "${name}" does not run: ${reason}`, {
      hint: `it starts by itself when that changes: \`berth models ls\` shows who has memory, \`berth status\` how the assistant is`,
    });
  return new BerthError("wrong_state", `model "${name}" is ${status}: ${reason}`, {
    hint: `\`berth models show ${name}\` tells more`,
  });
}

function explainConflict(name: string, error: unknown): unknown {
  if (!(error instanceof ApiError) || error.status !== 409) return error;
  return new BerthError("wrong_state", error.message, {
    hint: `\`berth models show ${name}\``,
    cause: error,
  });
}

/** What a person sees of it meanwhile, on standard error. */
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
    // What went wrong and is tried again stays to be read.
    if (view.error !== null && view.error !== this.#shownError && view.status !== "failed")
      this.#progress?.printLine(`${view.name}: ${view.error}`);
    this.#shownError = view.error ?? "";
    if (activity === undefined) return;
    const isCounted = view.step === "downloading" || view.step === "verifying";
    const total = isCounted ? view.size_bytes : null;
    this.#hasShownBytes ||= isCounted;
    this.#progress?.show({
      // The bar begins anew then, and has to say why.
      label: view.step === "verifying" ? `${view.name} checking` : view.name,
      activity,
      doneBytes: doneBytes(view, isCounted),
      totalBytes: total,
      bytesPerSecond: isCounted ? view.bytes_per_second : null,
    });
  }

  /** The last that was told is of a moment ago. */
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
  // While it is verified, all is on disk, and the progress is that of the reading.
  return Math.round(view.progress * view.size_bytes);
}

/** What is under way, in a word or two; undefined where nothing is. */
function activityText({ step, status }: ModelProgressView): string | undefined {
  if (step === "resolving") return "asking the source ...";
  if (step === "waiting") return "waiting for another download ...";
  if (step === "verifying") return "checking ...";
  if (step === "downloading") return "downloading ...";
  if (status === "starting") return "loading ...";
  if (status === "stopping") return "making room ...";
  return undefined;
}
