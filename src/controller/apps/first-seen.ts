import type { DesiredApp } from "./desired-app.ts";
import { isServing } from "./plan/plan-route.ts";
import type { FirstSeen, ObservedApp } from "./plan/plan-types.ts";

type Observed = Pick<ObservedApp, "containers" | "route">;

/**
 * Remembers when this process first saw each container run, and run without requests. The engine reports when a
 * container was started, but by its own clock, which may be another machine's; it does not report requests. After a
 * start of Berth every container is seen for the first time, which makes waits longer, never shorter.
 */
export class FirstSeenTimes {
  readonly #up = new Map<string, ReadonlyMap<string, SeenLife>>();
  readonly #idle = new Map<string, ReadonlyMap<string, number>>();

  /** Remembers the containers of an observation, and returns when each was first seen. */
  update(desired: DesiredApp, observed: Observed, nowMs: number): FirstSeen {
    const { up, idle } = this.#merge(desired, observed, nowMs);
    this.#up.set(desired.name, up);
    this.#idle.set(desired.name, idle);
    return toFirstSeen(up, idle);
  }

  /** Returns what `update` would return, and remembers nothing. */
  preview(desired: DesiredApp, observed: Observed, nowMs: number): FirstSeen {
    const { up, idle } = this.#merge(desired, observed, nowMs);
    return toFirstSeen(up, idle);
  }

  forget(app: string): void {
    this.#up.delete(app);
    this.#idle.delete(app);
  }

  #merge(desired: DesiredApp, { containers, route }: Observed, nowMs: number) {
    const app = desired.name;
    const running = containers.filter(({ state }) => state === "running");
    const knownUp = this.#up.get(app);
    const up = new Map(
      running.map(({ id, startedAt }) => {
        const known = knownUp?.get(id);
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
    return { up, idle };
  }
}

/** One life of a container, from a start to its end, and when this process first saw it. */
interface SeenLife {
  readonly life: string;
  readonly at: number;
}

function toFirstSeen(
  up: ReadonlyMap<string, SeenLife>,
  idleSince: ReadonlyMap<string, number>,
): FirstSeen {
  return { upSince: new Map([...up].map(([id, { at }]) => [id, at])), idleSince };
}
