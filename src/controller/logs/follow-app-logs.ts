import type { Store } from "../../store/store.ts";
import type { AppLogLine } from "../port.ts";
import type { WorkloadRuntime } from "../runtime/port.ts";
import { ignoreRemovedContainer } from "./ignore-removed-container.ts";
import { StreamMerger } from "./stream-merger.ts";

/** What may have come of one container between two reads; far more than comes in that time. */
const CATCH_UP_LINES_MAX = 10_000;

interface ContainerStart {
  readonly id: string;
  readonly name: string;
  /** Another start of the same container is another life, with a log stream of its own. */
  readonly startedAt: string | null;
}

export interface LogPosition {
  readonly containers: readonly ContainerStart[];
  /** By container id: the time of the last line that was read. */
  readonly lastTimes: ReadonlyMap<string, string>;
  /** Epoch milliseconds; older lines are not wanted. */
  readonly sinceMs?: number;
}

/**
 * Lines of an App's containers as they come. Which containers there are is told by the App's status,
 * so that a redeploy, a restart by Berth and another replica are followed too. Ends when the App is
 * gone, with its last line. Throws what the engine throws.
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
    // Lines that came between two reads are read again by time, and those already given are left out.
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
