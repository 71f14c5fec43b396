import type { Clock } from "../../base/clock.ts";
import type { Store } from "../../store/store.ts";
import type { AppLogEntry } from "../port.ts";
import type { WorkloadRuntime } from "../runtime/port.ts";
import { followWithinBounds } from "./bounded-follow.ts";
import { ignoreRemovedContainer } from "./ignore-removed-container.ts";
import { StreamMerger } from "./stream-merger.ts";

interface ContainerStart {
  readonly id: string;
  readonly name: string;
  /** The last start of the container. A container that was started again has a new log stream. */
  readonly startedAt: string | null;
}

export interface LogPosition {
  readonly containers: readonly ContainerStart[];
  /** The time of the last line that was read, by container id. */
  readonly lastTimes: ReadonlyMap<string, string>;
  /** The time of the first line to return, in epoch milliseconds; older lines are skipped. */
  readonly sinceMs?: number;
}

/**
 * Yields the lines of an App's containers as they are written. The function finds the containers in the App's status,
 * so that it also follows new containers after a redeploy, a restart or a scale-up. If the reader is too slow, lines
 * are skipped and counted. The stream of a deleted App ends with the App's last line. Throws the engine's errors.
 */
export async function* followAppLogs(
  {
    store,
    runtime,
    clock,
  }: { readonly store: Store; readonly runtime: WorkloadRuntime; readonly clock: Clock },
  name: string,
  position: LogPosition,
  signal: AbortSignal,
): AsyncIterable<AppLogEntry> {
  const merge = new StreamMerger<AppLogEntry>();
  const lastTimes = new Map(position.lastTimes);
  const followedStarts = new Set<string>();
  const reading = new AbortController();
  const stopReading = () => {
    reading.abort(signal.reason);
    merge.notifyChange();
  };

  async function* readLines({ id, name: container }: ContainerStart): AsyncIterable<AppLogEntry> {
    // Lines that were written between two reads are read again by time, and lines that were already yielded are
    // skipped.
    const last = lastTimes.get(id);
    const sinceMs = last === undefined ? position.sinceMs : Date.parse(last);
    const options = {
      tail: Number.POSITIVE_INFINITY,
      follow: true,
      ...(sinceMs === undefined ? {} : { sinceMs }),
    };
    const lines = ignoreRemovedContainer(runtime.logs(id, options, reading.signal));
    const isNew = ({ time }: { readonly time: string }) => last === undefined || time > last;
    for await (const entry of followWithinBounds(filter(lines, isNew), clock)) {
      if (!("skipped" in entry)) lastTimes.set(id, entry.time);
      yield { ...entry, container };
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

async function* filter<T>(
  items: AsyncIterable<T>,
  isWanted: (item: T) => boolean,
): AsyncGenerator<T> {
  for await (const item of items) if (isWanted(item)) yield item;
}
