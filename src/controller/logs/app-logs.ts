import type { Clock } from "../../base/clock.ts";
import { NotFoundError } from "../../base/errors.ts";
import type { Store } from "../../store/store.ts";
import type { AppLogEntry, AppLogLine, AppLogOptions } from "../port.ts";
import type { WorkloadRuntime } from "../runtime/port.ts";
import { followAppLogs } from "./follow-app-logs.ts";
import { ignoreRemovedContainer } from "./ignore-removed-container.ts";
import type { LogArchive } from "./log-archive.ts";

export interface AppLogDependencies {
  readonly store: Store;
  readonly runtime: WorkloadRuntime;
  readonly archive: LogArchive;
  readonly clock: Clock;
}

/**
 * Returns the last `tail` lines of the kept log and of all containers of an App, oldest first. With `follow`, new
 * lines come after them until the App is deleted or the signal aborts, including lines of containers that are created
 * later. Lines may be skipped only with `follow`. Throws NotFoundError.
 */
export async function* readAppLogs(
  dependencies: AppLogDependencies,
  name: string,
  options: AppLogOptions,
  signal: AbortSignal,
): AsyncIterable<AppLogEntry> {
  const { store, runtime, archive } = dependencies;
  if (!store.get("App", name))
    throw new NotFoundError(`there is no app "${name}"`, "berth get apps lists them");
  const since = options.sinceMs === undefined ? {} : { sinceMs: options.sinceMs };
  const containers = await runtime.listContainers(
    { instance: store.instanceId, app: name },
    signal,
  );
  const past: AppLogLine[] = (await archive.read(name)).filter(
    (line) => options.sinceMs === undefined || Date.parse(line.time) >= options.sinceMs,
  );
  const lastTimes = new Map<string, string>();
  for (const container of containers) {
    const tail = { tail: options.tail, follow: false, ...since };
    for await (const line of ignoreRemovedContainer(runtime.logs(container.id, tail, signal))) {
      past.push({ ...line, container: container.name });
      lastTimes.set(container.id, line.time);
    }
  }
  past.sort((a, b) => (a.time < b.time ? -1 : a.time > b.time ? 1 : 0));
  yield* past.slice(-options.tail);
  if (options.follow)
    yield* followAppLogs(dependencies, name, { containers, lastTimes, ...since }, signal);
}
