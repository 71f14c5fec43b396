import type { Store } from "../../store/store.ts";
import type { AppLogLine } from "../port.ts";
import type { WorkloadRuntime } from "../runtime/port.ts";
import { ignoreRemovedContainer } from "./ignore-removed-container.ts";
import { StreamMerger } from "./stream-merger.ts";

/** The limit of lines of one container between two reads; far more than are written in that time. */
const CATCH_UP_LINES_MAX = 10_000;

interface ContainerStart {
  readonly id: string;
  readonly name: string;
  /** A container that was started again has a new log stream. */
  readonly startedAt: string | null;
}

export interface LogPosition {
  readonly containers: readonly ContainerStart[];
  /** The time of the last line that was read, by container id. */
  readonly lastTimes: ReadonlyMap<string, string>;
  /** In epoch milliseconds; older lines are skipped. */
  readonly sinceMs?: number;
}

/**
 * Yields the lines of an App's containers as they are written. Takes the containers from the App's status, so that a
 * redeploy, a restart by Berth and another replica are followed too. Ends with the last line of a deleted App. Throws
 * what the engine throws.
 */
export async function* followAppLogs(
  { store, runtime }: { readonly store: Store; readonly runtime: WorkloadRuntime },
  name: string,
  position: LogPosition,
  signal: AbortSignal,
): AsyncIterable<AppLogLine> {
  const merge = new StreamMerger<AppLogLine>();
  const lastTimes = new Map(position.lastTimes);
  const followedStarts = new Set<string>();
  const reading = new AbortController();
  const stopReading = () => {
    reading.abort(signal.reason);
    merge.notifyChange();
  };

  async function* readLines({ id, name: container }: ContainerStart): AsyncIterable<AppLogLine> {
    // Lines written between two reads are read again by time, and those already yielded are skipped.
    const last = lastTimes.get(id);
    const sinceMs = last === undefined ? position.sinceMs : Date.parse(last);
    const options = {
      tail: CATCH_UP_LINES_MAX,
      follow: true,
      ...(sinceMs === undefined ? {} : { sinceMs }),
    };
    for await (const line of ignoreRemovedContainer(runtime.logs(id, options, reading.signal))) {
      if (last !== undefined && line.time <= last) continue;
      lastTimes.set(id, line.time);
      yield { ...line, container };
    }
  }
  const followNewStarts = (containers: readonly ContainerStart[]) => {
    for (const life of containers) {
      const key = `${life.id} ${life.startedAt}`;
      if (life.startedAt === null || followedStarts.has(key)) continue;
      followedStarts.add(key);
      merge.add(readLines(life));
    }
  };

  let hasChanged = true;
  const unwatch = store.watch((change) => {
    if (change.kind !== "App" || change.name !== name) return;
    hasChanged = true;
    merge.notifyChange();
  });
  signal.addEventListener("abort", stopReading, { once: true });
  if (signal.aborted) stopReading();
  try {
    followNewStarts(position.containers);
    while (!signal.aborted) {
      const app = store.get("App", name);
      if (hasChanged) followNewStarts(app?.status?.containers ?? []);
      hasChanged = false;
      const lines = merge.take();
      yield* lines;
      if (!app && lines.length === 0 && !merge.isBusy) return;
      if (lines.length === 0 && !hasChanged) await merge.waitForChange();
    }
  } finally {
    unwatch();
    signal.removeEventListener("abort", stopReading);
    merge.close();
    reading.abort();
  }
}
