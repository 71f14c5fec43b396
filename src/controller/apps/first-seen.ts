import type { DesiredApp } from "./desired-app.ts";
import { isServing } from "./plan/plan-route.ts";
import type { FirstSeen, ObservedApp } from "./plan/plan-types.ts";

/**
 * First sightings, kept by this process. The engine tells when a container was started, but by its own
 * clock, which may be another machine's; and nobody tells since when one has no requests. After a start of
 * Berth everything is seen for the first time, which makes waits longer, never shorter.
 */
export class FirstSeenTimes {
  readonly #up = new Map<string, Map<string, { readonly life: string; readonly at: number }>>();
  readonly #idle = new Map<string, Map<string, number>>();

  update(
    desired: DesiredApp,
    { containers, route }: Pick<ObservedApp, "containers" | "route">,
    nowMs: number,
  ): FirstSeen {
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
    this.#up.set(app, up);
    this.#idle.set(app, idle);
    return {
      upSince: new Map([...up].map(([id, { at }]) => [id, at])),
      idleSince: idle,
    };
  }

  forget(app: string): void {
    this.#up.delete(app);
    this.#idle.delete(app);
  }
}
