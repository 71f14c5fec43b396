import type { Resource } from "../../resources/resource.ts";
import type { Reason } from "../reason.ts";

/**
 * Routes requests from the network to apps. The settings of the ingress have two parts that change at different rates:
 * - the route table has the addresses of each App's targets; it changes with every rollout, atomically and without
 *   a reload, so that no connection is interrupted;
 * - the sites have the domains and options of each App; they change when a user changes a spec, and are applied to
 *   the proxy as a whole.
 * Both parts are stored, so that Berth and the proxy continue with their last state after a restart of either.
 */
export interface Ingress {
  /** `off`: apps are published on loopback ports, and there is no route table. */
  readonly mode: "off" | "process" | "container";
  /**
   * The way in which the proxy reaches containers: at their addresses on the instance's network, or through ports
   * that the engine publishes, if this machine cannot reach the containers' addresses.
   */
  readonly reachability: "address" | "published";
  readonly table: AppRouteTable;
  state(): IngressState;
  /**
   * Returns how the proxy serves the domains in this version of the App's spec; domains of earlier versions are not
   * served. Undefined if the proxy has not reported on the App since Berth started.
   */
  verdict(app: Resource<"App">): SiteVerdict | undefined;
  /** Returns the address of the REST API through the proxy; undefined if the API has no such address. */
  api(): IngressApi | undefined;
  /** Returns the URL of a domain of the App: scheme, host, and the port unless it is the default. */
  url(domain: string, https: boolean, path: string): string;
}

export interface AppRouteTable {
  /** Returns the targets of an App, which may be an empty list. Returns null for an App without a route. */
  read(app: string): Promise<AppRoute | null>;
  /**
   * Routes new requests of the App only to `targets`; running requests are completed at their target. Without targets,
   * requests get a 503, and the route has an empty list. The route's `sinceMs` changes only when `version` changes.
   * Idempotent. Throws `disk_full`, `internal`.
   */
  write(
    app: string,
    route: { readonly version: string; readonly targets: readonly string[] },
  ): Promise<void>;
  /**
   * Removes every target that is not in `reachable` from the App's route, if there is one. The removal holds the
   * table's lock, so that it never undoes a concurrent switch. Returns the route after the removal.
   */
  retainTargets(app: string, reachable: ReadonlySet<string>): Promise<AppRoute | null>;
  /** Removes the App's route. Does nothing if it is missing. */
  remove(app: string): Promise<void>;
}

export interface AppRoute {
  /** Identifies the version of the App to which requests are routed, by a hash of the settings of its containers. */
  readonly version: string;
  /** The host:port of each replica, in order and distinct. */
  readonly targets: readonly string[];
  /** The time since which requests are routed to this version of the App, in epoch milliseconds. */
  readonly sinceMs: number;
}

export type IngressState =
  | { readonly ready: true; readonly version: string; readonly message: string }
  /** `message` contains the problem and what to do about it. */
  | { readonly ready: false; readonly message: string };

export interface IngressApi {
  readonly url: string;
  /** The reason why requests to the URL fail now; absent if they succeed. */
  readonly problem?: string;
}

/** The reason that the ingress reports for an App if a name of the App has no valid certificate yet. */
export const CERTIFICATE_PENDING = "CertificatePending";

export type SiteVerdict =
  /** `pending` is the reason why requests over HTTPS fail now. */
  | { readonly served: true; readonly https: boolean; readonly pending?: Reason }
  | { readonly served: false; readonly reason: string; readonly message: string };
