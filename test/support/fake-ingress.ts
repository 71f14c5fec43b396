import type { Clock } from "../../src/base/clock.ts";
import type {
  AppRoute,
  AppRouteTable,
  Ingress,
  IngressState,
  SiteVerdict,
} from "../../src/controller/ingress/port.ts";
import type { Resource } from "../../src/resources/resource.ts";

/**
 * Hooks around each change of the route table. An error thrown in `before` simulates a change that never happened,
 * and one in `after` simulates a reply that is lost after the change. A promise delays the change.
 */
export interface FakeIngressFaults {
  before?(change: FakeIngressChange): void | Promise<void>;
  after?(change: FakeIngressChange): void | Promise<void>;
}

export interface FakeIngressChange {
  readonly type: "write" | "remove";
  readonly app: string;
  readonly targets: readonly string[];
  /** The number of the change, counted from 1 over all changes through this ingress. */
  readonly number: number;
}

export interface FakeIngressOptions {
  readonly clock: Clock;
  readonly mode?: Ingress["mode"];
  readonly reach?: Ingress["reachability"];
  /** The route table of an earlier ingress. It survives a kill of Berth, as the real table on the disk does. */
  readonly routes?: Map<string, AppRoute>;
  readonly faults?: FakeIngressFaults;
  /** The decision about Apps for which `setVerdict` was not called. By default, every App is served over HTTP. */
  readonly verdict?: SiteVerdict;
}

/** An in-memory `Ingress`. Tests set its state with `current`, and its verdict on an App with `setVerdict`. */
export class FakeIngress implements Ingress {
  readonly mode: Ingress["mode"];
  readonly reachability: Ingress["reachability"];
  /** The route of each App. An App that is not listed has no targets. */
  readonly routes: Map<string, AppRoute>;
  faults: FakeIngressFaults;
  /** If true, the process that uses this ingress is dead: its changes never settle. The route table survives. */
  dead = false;
  current: IngressState = { ready: true, version: "fake", message: "the fake ingress runs" };
  readonly table: AppRouteTable;
  readonly #clock: Clock;
  readonly #default: SiteVerdict | undefined;
  readonly #verdicts = new Map<string, SiteVerdict | undefined>();
  #number = 0;

  constructor(options: FakeIngressOptions) {
    this.mode = options.mode ?? "process";
    this.reachability = options.reach ?? "address";
    this.routes = options.routes ?? new Map<string, AppRoute>();
    this.faults = options.faults ?? {};
    this.#clock = options.clock;
    this.#default = options.verdict ?? { served: true, https: false };
    this.table = {
      read: (app) => Promise.resolve(this.routes.get(app) ?? null),
      write: (app, { version, targets }) =>
        this.#change("write", app, targets, () => {
          const before = this.routes.get(app);
          const sinceMs = before?.version === version ? before.sinceMs : this.#clock.now();
          this.routes.set(app, { version, targets: [...new Set(targets)], sinceMs });
        }),
      retainTargets: async (app, reached) => {
        const left = () => this.routes.get(app)?.targets.filter((target) => reached.has(target));
        const targets = left();
        if (targets && targets.length < (this.routes.get(app)?.targets.length ?? 0))
          await this.#change("write", app, targets, () => {
            const route = this.routes.get(app);
            if (route) this.routes.set(app, { ...route, targets: left() ?? [] });
          });
        return this.routes.get(app) ?? null;
      },
      remove: (app) => this.#change("remove", app, [], () => void this.routes.delete(app)),
    };
  }

  state(): IngressState {
    return this.current;
  }

  /** A verdict that the test has set applies to the App whatever its spec is. */
  verdict({ metadata: { name } }: Resource<"App">): SiteVerdict | undefined {
    return this.#verdicts.has(name) ? this.#verdicts.get(name) : this.#default;
  }

  /** Sets the state that the ingress reports for the domains of an App; undefined if it reports none yet. */
  setVerdict(app: string, verdict: SiteVerdict | undefined): void {
    this.#verdicts.set(app, verdict);
  }

  api(): undefined {}

  url(domain: string, https: boolean, path: string): string {
    return `${https ? "https" : "http"}://${domain}${path}`;
  }

  async #change(
    type: FakeIngressChange["type"],
    app: string,
    targets: readonly string[],
    apply: () => void,
  ): Promise<void> {
    this.#number += 1;
    const change = { type, app, targets, number: this.#number };
    if (this.dead) await new Promise(() => {});
    await this.faults.before?.(change);
    if (this.dead) await new Promise(() => {});
    apply();
    await this.faults.after?.(change);
  }
}
