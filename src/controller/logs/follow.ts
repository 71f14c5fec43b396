import type { Store } from "../../store/store.ts";
import type { AppLogLine } from "../port.ts";
import type { ContainerRuntime } from "../runtime/port.ts";
import { Merge } from "./merge.ts";
import { unlessGone } from "./unless-gone.ts";

/** What may have come of one container between two reads; far more than comes in that time. */
const CAUGHT_UP_LINES_MAX = 10_000;

interface Life {
  readonly id: string;
  readonly name: string;
  /** Another start of the same container is another life, with a log stream of its own. */
  readonly startedAt: string | null;
}

export interface ReadSoFar {
  readonly containers: readonly Life[];
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
export async function* followApp(
  { store, runtime }: { readonly store: Store; readonly runtime: ContainerRuntime },
  name: string,
  read: ReadSoFar,
  signal: AbortSignal,
): AsyncIterable<AppLogLine> {
  const merge = new Merge<AppLogLine>();
  const lastTimes = new Map(read.lastTimes);
  const lives = new Set<string>();
  const reading = new AbortController();
  const leave = () => {
    reading.abort(signal.reason);
    merge.wake();
  };

  async function* linesOf({ id, name: container }: Life): AsyncIterable<AppLogLine> {
    // Lines that came between two reads are read again by time, and those already given are left out.
    const last = lastTimes.get(id);
    const sinceMs = last === undefined ? read.sinceMs : Date.parse(last);
    const options = {
      tail: CAUGHT_UP_LINES_MAX,
      follow: true,
      ...(sinceMs === undefined ? {} : { sinceMs }),
    };
    for await (const line of unlessGone(runtime.logs(id, options, reading.signal))) {
      if (last !== undefined && line.time <= last) continue;
      lastTimes.set(id, line.time);
      yield { ...line, container };
    }
  }
  const look = (containers: readonly Life[]) => {
    for (const life of containers) {
      const key = `${life.id} ${life.startedAt}`;
      if (life.startedAt === null || lives.has(key)) continue;
      lives.add(key);
      merge.add(linesOf(life));
    }
  };

  let isNews = true;
  const unwatch = store.watch((change) => {
    if (change.kind !== "App" || change.name !== name) return;
    isNews = true;
    merge.wake();
  });
  signal.addEventListener("abort", leave, { once: true });
  if (signal.aborted) leave();
  try {
    look(read.containers);
    while (!signal.aborted) {
      const app = store.get("App", name);
      if (isNews) look(app?.status?.containers ?? []);
      isNews = false;
      const lines = merge.take();
      yield* lines;
      if (!app && lines.length === 0 && !merge.isBusy) return;
      if (lines.length === 0 && !isNews) await merge.changed();
    }
  } finally {
    unwatch();
    signal.removeEventListener("abort", leave);
    merge.close();
    reading.abort();
  }
}
