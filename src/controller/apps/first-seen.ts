import type { DesiredApp } from "./desired-app.ts";
import { isHealthy } from "./plan/observed-containers.ts";
import { isServing } from "./plan/plan-route.ts";
import type { FirstSeen, ObservedApp } from "./plan/plan-types.ts";

type Observed = Pick<ObservedApp, "containers" | "health" | "route">;

/**
 * Remembers when this process first saw each container healthy, and when it first saw each container without requests.
 * The engine does not know these times. After a start of Berth every container counts as seen for the first time, so
 * waits can become longer, but never shorter.
 */
export class FirstSeenTimes {
  readonly #healthy = new Map<string, ReadonlyMap<string, SeenLife>>();
  readonly #idle = new Map<string, ReadonlyMap<string, number>>();

  /** Remembers the containers of an observation, and returns when each was first seen. */
  update(desired: DesiredApp, observed: Observed, nowMs: number): FirstSeen {
    const { healthy, idle } = this.#merge(desired, observed, nowMs);
    this.#healthy.set(desired.name, healthy);
    this.#idle.set(desired.name, idle);
    return toFirstSeen(healthy, idle);
  }

  /** Returns what `update` would return, and remembers nothing. */
  preview(desired: DesiredApp, observed: Observed, nowMs: number): FirstSeen {
    const { healthy, idle } = this.#merge(desired, observed, nowMs);
    return toFirstSeen(healthy, idle);
  }

  forget(app: string): void {
    this.#healthy.delete(app);
    this.#idle.delete(app);
  }

  #merge(desired: DesiredApp, { containers, health, route }: Observed, nowMs: number) {
    const app = desired.name;
    const running = containers.filter(({ state }) => state === "running");
    const knownHealthy = this.#healthy.get(app);
    const healthy = new Map(
      running
        .filter((container) => isHealthy(container, health))
        .map(({ id, startedAt }) => {
          const known = knownHealthy?.get(id);
          const life = startedAt ?? "";
          return [id, known?.life === life ? known : { life, at: nowMs }];
        }),
    );
    const knownIdle = this.#idle.get(app);
    const idle = new Map(
      running
        .filter((container) => !isServing(desired, { route }, container))
        .map(({ id }) => [id, knownIdle?.get(id) ?? nowMs]),
    );
    return { healthy, idle };
  }
}

/**
 * One life of a container, from a start to its end, and the time when this process first saw the container healthy in
 * this life.
 */
interface SeenLife {
  readonly life: string;
  readonly at: number;
}

function toFirstSeen(
  healthy: ReadonlyMap<string, SeenLife>,
  idleSince: ReadonlyMap<string, number>,
): FirstSeen {
  return { healthySince: new Map([...healthy].map(([id, { at }]) => [id, at])), idleSince };
}
