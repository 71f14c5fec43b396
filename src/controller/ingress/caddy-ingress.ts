import { deepEqual } from "../../base/canonical-json.ts";
import { type Clock, delay } from "../../base/clock.ts";
import { BerthError, getErrorMessage, isAbortError } from "../../base/errors.ts";
import type { Logger } from "../../base/logger.ts";
import { TaskGroup } from "../../base/task-group.ts";
import type { DomainSettings } from "../../resources/domain-claims.ts";
import type { Resource } from "../../resources/resource.ts";
import type { Store, StoreChange } from "../../store/store.ts";
import type { CaddyCertificates } from "./caddy-certificates.ts";
import type { CaddyConfigLoader } from "./caddy-config-loader.ts";
import type { CaddyHost } from "./caddy-host.ts";
import { listApiCertifiedNames, listCertifiedNames } from "./caddy-routes.ts";
import type { FolderRouteTable } from "./folder-route-table.ts";
import {
  CERTIFICATE_PENDING,
  type Ingress,
  type IngressApi,
  type IngressState,
  type SiteVerdict,
} from "./port.ts";
import { type Site, siteDigest } from "./site.ts";
import { mapHostsToApps, SitePlanner } from "./site-planner.ts";

/**
 * The interval at which Berth checks if Caddy still runs. If Caddy is a child of this process, Berth notices its exit
 * immediately.
 */
const POLL_MS = 2_000;
/** Every fifth poll also compares Caddy's loaded configuration with Berth's, to notice changes by other programs. */
const COMPARE_EVERY = 5;
/**
 * The delay in which changes are collected. Apps often change together, for example when a folder of specs is read.
 */
const DEBOUNCE_MS = 100;
/** The first delay before another attempt to start Caddy; it doubles each time. */
const RETRY_MIN_MS = 1_000;
const RETRY_MAX_MS = 30_000;

interface RecordedVerdict {
  readonly verdict: SiteVerdict;
  /**
   * The digest of the App's site that `verdict` describes. After a change of the site the digests differ, and `verdict`
   * is not used any more.
   */
  readonly digest: string;
}

export interface CaddyIngressOptions {
  readonly host: CaddyHost;
  readonly loader: CaddyConfigLoader;
  readonly table: FolderRouteTable;
  readonly certificates: CaddyCertificates;
  readonly reachability: Ingress["reachability"];
  readonly store: Pick<Store, "instanceId" | "list" | "secrets" | "watch">;
  readonly domains: DomainSettings;
  readonly httpPort: number | undefined;
  readonly httpsPort: number | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
  /**
   * Called when the ingress has accepted or refused the routes of this App, or when the state of the proxy has changed.
   */
  readonly onChanged: (app: string) => void;
}

/**
 * The ingress with Caddy. A single loop makes all changes: it computes the sites from the store, updates hosts and
 * configuration, supervises Caddy, and publishes a verdict for each App. Each round starts from the beginning, and
 * changes as much as it can even if a part fails.
 */
export class CaddyIngress implements Ingress, AsyncDisposable {
  readonly mode: Ingress["mode"];
  readonly reachability: Ingress["reachability"];
  readonly table: FolderRouteTable;
  readonly #options: CaddyIngressOptions;
  readonly #planner: SitePlanner;
  readonly #tasks: TaskGroup;
  /** The reason why Caddy does not forward requests to the API. */
  #apiProblem: string | undefined;
  #state: IngressState = { ready: false, message: "the ingress is starting" };
  #verdicts = new Map<string, RecordedVerdict>();
  #apps: ReadonlyMap<string, string> = new Map();
  #isDirty = true;
  #wake: () => void = () => {};
  #unwatch: () => void = () => {};
  #cancelDebounce: (() => void) | undefined;

  constructor(options: CaddyIngressOptions) {
    this.#options = options;
    this.mode = options.host.mode;
    this.reachability = options.reachability;
    this.table = options.table;
    this.#planner = new SitePlanner(options);
    this.#tasks = new TaskGroup((err, task) =>
      options.logger.error({ err, task }, "the supervision of Caddy has ended"),
    );
  }

  state(): IngressState {
    return this.#state;
  }

  verdict(app: Resource<"App">): SiteVerdict | undefined {
    const given = this.#verdicts.get(app.metadata.name);
    if (!given || given.digest === siteDigest(app)) return given?.verdict;
    return {
      served: false,
      reason: "WaitingForIngress",
      message: this.#state.ready
        ? "the ingress is applying the change of its domain or options"
        : this.#state.message,
    };
  }

  api(): IngressApi | undefined {
    const { apiDomain } = this.#options.domains;
    if (apiDomain === undefined) return undefined;
    const url = this.url(apiDomain, true, "");
    const problem = this.#state.ready ? this.#apiProblem : this.#state.message;
    return problem === undefined ? { url } : { url, problem };
  }

  url(domain: string, https: boolean, path: string): string {
    const { httpPort, httpsPort } = this.#options;
    const secure = (https && httpsPort !== undefined) || httpPort === undefined;
    const port = secure ? httpsPort : httpPort;
    const usual = secure ? 443 : 80;
    return `${secure ? "https" : "http"}://${domain}${port === undefined || port === usual ? "" : `:${port}`}${path}`;
  }

  /** Returns immediately. Caddy is started in the background, or a running Caddy is adopted. */
  start(signal: AbortSignal): void {
    const { store, host } = this.#options;
    this.#unwatch = store.watch((change) => this.#onChange(change));
    host.onExit = () => this.#wake();
    this.#tasks.run("caddy", (ending) => this.#loop(AbortSignal.any([signal, ending])));
  }

  /** Ends the supervision and stops Caddy. `[Symbol.asyncDispose]` leaves Caddy running. */
  async stop(signal: AbortSignal): Promise<void> {
    await this[Symbol.asyncDispose]();
    await this.#options.host.stop(signal);
    this.#state = { ready: false, message: "the ingress was stopped" };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#unwatch();
    this.#cancelDebounce?.();
    await this.#tasks[Symbol.asyncDispose]();
    await this.table[Symbol.asyncDispose]();
  }

  #onChange(change: StoreChange): void {
    if (change.kind !== "App" && change.kind !== "Secret") return;
    if (change.type === "status" || change.type === "event") return;
    this.#isDirty = true;
    this.#cancelDebounce ??= this.#options.clock.setTimer(DEBOUNCE_MS, () => {
      this.#cancelDebounce = undefined;
      this.#wake();
    });
  }

  async #loop(signal: AbortSignal): Promise<void> {
    const { logger } = this.#options;
    await this.#removeDeletedApps();
    let failures = 0;
    for (let round = 0; !signal.aborted; round += 1) {
      try {
        const isUp = await this.#options.loader.isUp(signal);
        if (!isUp && this.#state.ready)
          this.#setState({ ready: false, message: "Caddy does not answer, and is restarted" });
        const isDue = this.#isDirty || this.#awaitsCertificates || round % COMPARE_EVERY === 0;
        if (!isUp || isDue) await this.#reconcile(signal);
        failures = 0;
      } catch (error) {
        if (isAbortError(error) && signal.aborted) return;
        failures += 1;
        this.#isDirty = true;
        const fields = { error: getErrorMessage(error), failures };
        // The log contains no stack for expected errors, such as a taken port.
        const isExpected = error instanceof BerthError && error.code !== "internal";
        if (failures === 1)
          logger.warn(isExpected ? fields : { ...fields, err: error }, "the ingress is not ready");
        else logger.debug(fields, "the ingress is still not ready");
        this.#setState({ ready: false, message: describeError(error) });
      }
      const retryMs = Math.min(RETRY_MIN_MS * 2 ** (failures - 1), RETRY_MAX_MS);
      if (failures > 0) await this.#pause(retryMs, signal);
      // If an App has changed while the sites were applied, the sites are applied again without a pause.
      else if (!this.#isDirty || this.#cancelDebounce) await this.#pause(POLL_MS, signal);
    }
  }

  async #reconcile(signal: AbortSignal): Promise<void> {
    const { loader, host, logger } = this.#options;
    this.#isDirty = false;
    const { sites, refusals, apps } = await this.#planner.planSites();
    this.#apps = apps;
    this.#publishRefusals(refusals);
    const hosts = mapHostsToApps(sites);
    // New hosts are added to the route table before the configuration is loaded, and old ones are removed afterwards.
    // When ingress options move an App between table and configuration, one of the two therefore always serves the App.
    await this.table.setHosts(hosts, "add");
    let refused: ReadonlyMap<string, string>;
    try {
      refused = await loader.apply(sites, signal);
    } finally {
      // Old hosts are removed even if the configuration could not be loaded: a host that now needs a password must not
      // stay reachable without one through the table.
      await this.table.setHosts(hosts, "replace");
    }
    if (refused.size > 0)
      await this.table.setHosts(
        mapHostsToApps(sites.filter((site) => !refused.has(site.app))),
        "replace",
      );
    const verdicts = new Map<string, SiteVerdict>();
    for (const site of sites)
      verdicts.set(site.app, await this.#createVerdict(site, refused.get(site.app)));
    this.#setVerdicts(new Map([...this.#withDigests(verdicts), ...this.#toVerdicts(refusals)]));
    this.#apiProblem = await this.#describeMissing(listApiCertifiedNames(loader.api));
    const version = loader.version ?? "unknown";
    const where = host.mode === "process" ? "as a process" : "in a container";
    const state: IngressState = {
      ready: true,
      version,
      message: `Caddy ${version} runs ${where}, ${this.#describePorts()}`,
    };
    if (!this.#state.ready) logger.info({ version, mode: host.mode }, "the ingress is ready");
    this.#setState(state);
  }

  async #createVerdict(site: Site, refusal: string | undefined): Promise<SiteVerdict> {
    if (refusal !== undefined)
      return {
        served: false,
        reason: "OptionsRefused",
        message: `Caddy refuses spec.ingress of this app: ${redactPaths(refusal)}`,
      };
    const [own] = site.domains;
    const names = this.#options.httpsPort === undefined ? [] : listCertifiedNames(site);
    const https = own !== undefined && names.includes(own);
    const problem = await this.#describeMissing(names);
    if (problem === undefined) return { served: true, https };
    return { served: true, https, pending: { reason: CERTIFICATE_PENDING, message: problem } };
  }

  /** Returns which of the names have no certificate yet, and why; undefined if all have one. */
  async #describeMissing(names: readonly string[]): Promise<string | undefined> {
    const { certificates } = this.#options;
    const missing: string[] = [];
    const errors: string[] = [];
    for (const name of names) {
      if (await certificates.has(name)) continue;
      missing.push(name);
      const error = await certificates.findError(name);
      if (error !== undefined) errors.push(`${name}: ${error}`);
    }
    if (missing.length === 0) return undefined;
    const answers = errors.length === 0 ? "" : `; the last answer was: ${errors.join("; ")}`;
    return `the certificate of ${missing.join(", ")} is being obtained, and HTTPS fails until then: the name has to resolve to this machine, and the authority has to reach the ingress there${answers}`;
  }

  get #awaitsCertificates(): boolean {
    return (
      this.#apiProblem !== undefined ||
      [...this.#verdicts.values()].some(
        ({ verdict }) => verdict.served && verdict.pending !== undefined,
      )
    );
  }

  /**
   * Publishes the verdicts of Apps that Berth refuses to route, before Caddy applies the sites. An App that Caddy still
   * serves keeps its verdict until Caddy has stopped serving it.
   */
  #publishRefusals(refusals: ReadonlyMap<string, { reason: string; message: string }>): void {
    const before = [...this.#verdicts].filter(([app]) => this.#apps.has(app));
    const served = before.filter(([, { verdict }]) => verdict.served);
    this.#setVerdicts(new Map([...before, ...this.#toVerdicts(refusals), ...served]));
  }

  #toVerdicts(refusals: ReadonlyMap<string, { reason: string; message: string }>) {
    return this.#withDigests(
      new Map(
        [...refusals].map(([app, { reason, message }]) => [
          app,
          { served: false, reason, message } as const,
        ]),
      ),
    );
  }

  /** Adds to each verdict the digest of the site that was applied, which may be older than the spec in the store. */
  #withDigests(verdicts: ReadonlyMap<string, SiteVerdict>): [string, RecordedVerdict][] {
    return [...verdicts].map(([app, verdict]) => [
      app,
      { verdict, digest: this.#apps.get(app) ?? "" },
    ]);
  }

  #setVerdicts(verdicts: Map<string, RecordedVerdict>): void {
    const before = this.#verdicts;
    this.#verdicts = verdicts;
    for (const app of new Set([...before.keys(), ...verdicts.keys()]))
      if (!deepEqual(before.get(app), verdicts.get(app))) this.#options.onChanged(app);
  }

  #setState(state: IngressState): void {
    const before = this.#state;
    this.#state = state;
    if (before.ready === state.ready && before.message === state.message) return;
    for (const app of this.#apps.keys()) this.#options.onChanged(app);
  }

  /** Removes Apps from the route table that were deleted while Berth was not running. */
  async #removeDeletedApps(): Promise<void> {
    const { store, logger } = this.#options;
    try {
      await this.table.retainApps(new Set(store.list("App").map((app) => app.metadata.name)));
    } catch (error) {
      logger.warn(
        { err: error },
        "entries of deleted apps could not be removed from the route table",
      );
    }
  }

  async #pause(ms: number, signal: AbortSignal): Promise<void> {
    const waking = new AbortController();
    this.#wake = () => waking.abort();
    await delay(this.#options.clock, ms, AbortSignal.any([signal, waking.signal])).catch(() => {});
  }

  #describePorts(): string {
    const { httpPort, httpsPort } = this.#options;
    const ports = [
      ...(httpPort === undefined ? [] : [`HTTP on port ${httpPort}`]),
      ...(httpsPort === undefined ? [] : [`HTTPS on port ${httpsPort}`]),
    ];
    return ports.join(", ");
  }
}

function describeError(error: unknown): string {
  if (!(error instanceof BerthError)) return "the ingress failed; see Berth's log";
  return error.hint === undefined ? error.message : `${error.message}; ${error.hint}`;
}

/**
 * Removes the paths of this machine from an error message of Caddy, and shortens the message to its end, which contains
 * the cause.
 */
function redactPaths(problem: string): string {
  return problem.replaceAll(/(^|[\s"'=:])\/[^\s"':]+/g, "$1(path)").slice(-300);
}
