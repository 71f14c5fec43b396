import type { Resource } from "../../resources/resource.ts";

/**
 * What leads requests from the network to apps. Two halves that change at different speeds:
 *
 * - the route table says which addresses an App's requests go to; it changes with every rollout, in one
 *   step and without a reload, so that no connection of any App is touched;
 * - the sites say which domains an App has and what is done with their requests; they change when a
 *   person changes a spec, and are brought to the proxy as a whole.
 *
 * Both outlive Berth and the proxy: each goes on, or starts again, with what was there last.
 */
export interface Ingress {
  /** `off`: apps are published on loopback ports, and there is no table. */
  readonly mode: "off" | "process" | "container";
  /**
   * How the proxy reaches a container: by its address on the instance's network, or (where containers
   * have no addresses that this machine reaches) by a port that the engine publishes for it.
   */
  readonly reachability: "address" | "published";
  readonly table: AppRouteTable;
  /** What the proxy says, or is. */
  state(): IngressState;
  /**
   * How the proxy deals with the domains that the App has by this spec: with others it had before, it is
   * not served. Undefined where nothing is known of the App since Berth started.
   */
  verdict(app: Resource<"App">): SiteVerdict | undefined;
  /** The address under which people reach a domain of the App: scheme, host, and port where it is not the usual one. */
  url(domain: string, https: boolean, path: string): string;
}

export interface AppRouteTable {
  /** Where requests of the App go, perhaps to nobody; null for an App that was never written, or was removed. */
  read(app: string): Promise<AppRoute | null>;
  /**
   * From the return on, new requests of the App go to `targets` and nowhere else; those under way go on
   * where they are. No target: requests are answered with 503, and `read` gives that entry back. `since`
   * stays what it was while `version` does. Idempotent. Throws `disk_full`, `internal`.
   */
  write(
    app: string,
    route: { readonly version: string; readonly targets: readonly string[] },
  ): Promise<void>;
  /**
   * Takes out of the App's route, where it has one, every target that is not `reached`. One step under
   * the table's lock: a switch by somebody else is never undone. Returns what is there then.
   */
  retainTargets(app: string, reachable: ReadonlySet<string>): Promise<AppRoute | null>;
  /** The App's requests are nobody's any more. Missing is done. */
  remove(app: string): Promise<void>;
}

export interface AppRoute {
  /** The version (hash of its containers) that serves. */
  readonly version: string;
  /** host:port of each replica, in order, each once. */
  readonly targets: readonly string[];
  /** Since when this version serves; epoch milliseconds. */
  readonly sinceMs: number;
}

export type IngressState =
  | { readonly ready: true; readonly version: string; readonly message: string }
  /** `message` says what is wrong and what to do. */
  | { readonly ready: false; readonly message: string };

export type SiteVerdict =
  /** `note`: what is still to come, for people. */
  | { readonly served: true; readonly https: boolean; readonly note?: string }
  | { readonly served: false; readonly reason: string; readonly message: string };
