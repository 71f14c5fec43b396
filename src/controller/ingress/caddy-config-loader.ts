import { readFile } from "node:fs/promises";
import { writeAtomically } from "../../base/atomic-file.ts";
import { canonicalJson, deepEqual, hashJson } from "../../base/canonical-json.ts";
import { type Clock, delay } from "../../base/clock.ts";
import { BerthError } from "../../base/errors.ts";
import type { Logger } from "../../base/logger.ts";
import type { ApiSite } from "./api-site.ts";
import { CaddyAdmin } from "./caddy-admin.ts";
import { buildCaddyConfig, type CaddyConfig, type CaddySettings } from "./caddy-config.ts";
import type { CaddyHost, IngressPaths } from "./caddy-host.ts";
import type { DirectRouteLoads } from "./direct-route-loads.ts";
import type { Site } from "./site.ts";

/**
 * The time that Caddy may take to start. Debian's Caddy starts within half a second; a container on a busy machine
 * takes seconds.
 */
const START_LIMIT_MS = 15_000;
const START_POLL_MS = 50;
/**
 * The interval at which Berth checks that the running Caddy has the options with which this Berth process would start
 * it.
 */
const CHECK_EVERY_MS = 60_000;
/** The version that is assumed until Caddy reports its own. The configuration then uses no newer features. */
const OLDEST_VERSION = "2.6.0";

export interface CaddyConfigLoaderOptions {
  readonly host: CaddyHost;
  readonly paths: IngressPaths;
  readonly direct: DirectRouteLoads;
  readonly settings: Omit<CaddySettings, "folder" | "adminSocket" | "version">;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Builds the configuration of Caddy. Only tests replace this function. */
  readonly render?: typeof buildCaddyConfig;
}

/**
 * Makes Caddy run a given configuration. Starts Caddy if necessary, compares the configuration with the loaded one,
 * and loads it only if they differ. If Caddy refuses the configuration, the loader finds the Apps whose options are
 * refused, and leaves them out.
 */
export class CaddyConfigLoader {
  readonly #options: CaddyConfigLoaderOptions;
  readonly #admin: CaddyAdmin;
  readonly #render: typeof buildCaddyConfig;
  #version: string | undefined;
  /**
   * The time at which the running Caddy was last compared with the options of this Berth; undefined before the first
   * comparison.
   */
  #checkedAtMs: number | undefined;
  /**
   * Caddy's error messages for refused sites, by the digest of the site. A site with such a digest is not tried
   * again.
   */
  #refusalsByDigest = new Map<string, string>();

  constructor(options: CaddyConfigLoaderOptions) {
    this.#options = options;
    this.#admin = new CaddyAdmin(options.paths.adminSocket);
    this.#render = options.render ?? buildCaddyConfig;
  }

  get api(): ApiSite | undefined {
    return this.#options.settings.api;
  }

  get version(): string | undefined {
    return this.#version;
  }

  /** True if Caddy answers. */
  async isUp(signal: AbortSignal): Promise<boolean> {
    return this.#admin.isAnswering(signal);
  }

  /**
   * Applies a configuration. Returns Caddy's error messages by the names of the Apps that it refuses; these Apps are
   * not served. Throws if Caddy cannot be started, or if it refuses a part that belongs to no App.
   */
  async apply(sites: readonly Site[], signal: AbortSignal): Promise<ReadonlyMap<string, string>> {
    const { host, paths, direct, logger } = this.#options;
    this.#pruneRefusals(sites);
    await direct.read();
    this.#version ??= await host.version(signal);
    let running = await this.#admin.readConfig(signal);
    if (running === undefined && (await this.#waitForRecovery(signal)))
      running = await this.#admin.readConfig(signal);
    if (running === undefined || !(await this.#isUpToDate(signal))) {
      await direct.prepare(sites, signal);
      await this.#start(sites, signal);
      running = await this.#admin.readConfig(signal);
    }
    this.#checkedAtMs ??= this.#options.clock.now();
    const known = this.#version;
    this.#version ??= await host.version(signal);
    if (known !== this.#version) logger.debug({ version: this.#version }, "caddy's version");

    let accepted = this.#withoutRefused(sites);
    let config = this.#config(accepted);
    if (!deepEqual(running, config)) {
      await direct.prepare(sites, signal);
      config = this.#config(accepted);
      await host.assertPortsAvailable(findNewPorts(running, config), signal);
      const problem = await this.#admin.load(config, signal);
      if (problem !== undefined) {
        logger.warn({ error: problem }, "Caddy refuses its configuration");
        accepted = await this.#findAccepted(sites, signal);
        config = this.#config(accepted);
        const rest = await this.#admin.load(config, signal);
        if (rest !== undefined) {
          // Caddy refuses even the configuration without the sites that it has refused singly. The likely cause is that
          // Caddy's executable was replaced by another version. Caddy is stopped, so that the next attempt starts the
          // new version.
          await host.stop(signal);
          throw configRefusedError(rest);
        }
      }
      logger.info({ apps: accepted.length }, "Caddy has loaded its configuration");
    }
    await direct.confirm();
    const text = JSON.stringify(config);
    if (!(await hasContent(paths.configFile, text))) await writeAtomically(paths.configFile, text);
    return this.#collectRefusals(sites);
  }

  /**
   * Compares the options of the running Caddy with those that this process would set. An earlier Berth process may have
   * set other options, and another program may replace the container at any time.
   */
  async #isUpToDate(signal: AbortSignal): Promise<boolean> {
    const { host, clock, logger } = this.#options;
    const nowMs = clock.now();
    const lastMs = this.#checkedAtMs;
    if (lastMs !== undefined && nowMs >= lastMs && nowMs - lastMs < CHECK_EVERY_MS) return true;
    try {
      const isUpToDate = await host.isUpToDate(signal);
      this.#checkedAtMs = nowMs;
      if (!isUpToDate) logger.warn({}, "Caddy has other settings than Berth's, and is replaced");
      return isUpToDate;
    } catch (error) {
      // If the engine does not answer, the result of an earlier check still counts.
      if (lastMs === undefined || signal.aborted) throw error;
      return true;
    }
  }

  /**
   * Starts Caddy with all sites that it accepts. If Caddy does not start with these sites, starts Caddy without any
   * site: Caddy in a container can only validate a configuration while it runs.
   */
  async #start(sites: readonly Site[], signal: AbortSignal): Promise<void> {
    const { host, logger } = this.#options;
    const accepted = await this.#findAccepted(sites, signal);
    await host.start(this.#config(accepted), signal);
    if (await this.#waitUntilUp(signal)) return;
    if (!(await host.isRunning(signal)) && accepted.length > 0) {
      logger.warn(
        {},
        "Caddy does not start with the options of the apps, and is started without them",
      );
      await host.start(this.#config([]), signal);
      if (await this.#waitUntilUp(signal)) return;
    }
    // Caddy hangs or has lost its socket. Caddy is stopped here, and the next attempt to apply the sites starts it
    // again.
    await host.stop(signal);
    throw new BerthError("internal", "Caddy does not answer", {
      hint: "see caddy.log and caddy.out in the ingress folder of the data directory",
    });
  }

  /**
   * Returns true if a running Caddy that did not answer now answers, for example because it was starting. A Caddy
   * that hangs is stopped, because it may hold locks that a validation needs.
   */
  async #waitForRecovery(signal: AbortSignal): Promise<boolean> {
    const { host } = this.#options;
    if (!(await host.isRunning(signal))) return false;
    if (await this.#waitUntilUp(signal)) return true;
    await host.stop(signal);
    return false;
  }

  async #waitUntilUp(signal: AbortSignal): Promise<boolean> {
    const { clock, host } = this.#options;
    const limit = clock.now() + START_LIMIT_MS;
    for (let round = 1; clock.now() < limit; round += 1) {
      if (await this.#admin.isAnswering(signal)) return true;
      // Only every tenth round checks if Caddy still runs, because for Caddy in a container the check is a request to
      // the engine.
      if (round % 10 === 0 && !(await host.isRunning(signal))) return false;
      await delay(clock, START_POLL_MS, signal);
    }
    return false;
  }

  /** Returns the sites that Caddy accepts. Bisects the refused configuration to find the sites that Caddy refuses. */
  async #findAccepted(sites: readonly Site[], signal: AbortSignal): Promise<Site[]> {
    const { host, logger } = this.#options;
    const refusal = (some: readonly Site[]) => host.validate(this.#config(some), signal);
    const open = this.#withoutRefused(sites);
    if ((await refusal(open)) === undefined) return open;
    const problem = await refusal([]);
    if (problem !== undefined) throw configRefusedError(problem);
    const search = async (
      accepted: readonly Site[],
      rest: readonly Site[],
    ): Promise<readonly Site[]> => {
      const found = await refusal([...accepted, ...rest]);
      if (found === undefined) return [...accepted, ...rest];
      const [only] = rest;
      if (only && rest.length === 1) {
        logger.warn({ app: only.app, error: found }, "Caddy refuses the options of an app");
        this.#refusalsByDigest.set(hashJson(only), found);
        return accepted;
      }
      const middle = Math.ceil(rest.length / 2);
      const first = await search(accepted, rest.slice(0, middle));
      return search(first, rest.slice(middle));
    };
    return [...(await search([], open))];
  }

  #withoutRefused(sites: readonly Site[]): Site[] {
    return sites.filter((site) => !this.#refusalsByDigest.has(hashJson(site)));
  }

  #collectRefusals(sites: readonly Site[]): Map<string, string> {
    const found = new Map<string, string>();
    for (const site of sites) {
      const problem = this.#refusalsByDigest.get(hashJson(site));
      if (problem !== undefined) found.set(site.app, problem);
    }
    return found;
  }

  #pruneRefusals(sites: readonly Site[]): void {
    const digests = new Set(sites.map((site) => hashJson(site)));
    this.#refusalsByDigest = new Map(
      [...this.#refusalsByDigest].filter(([digest]) => digests.has(digest)),
    );
  }

  #config(sites: readonly Site[]): CaddyConfig {
    const { settings, paths, direct } = this.#options;
    const { folder, adminSocket } = paths;
    const version = this.#version ?? OLDEST_VERSION;
    return this.#render({ ...settings, folder, adminSocket, version }, sites, direct.current);
  }
}

function configRefusedError(problem: string): BerthError {
  return new BerthError("internal", "Caddy refuses its configuration", {
    hint: "see Berth's log for Caddy's message",
    cause: new Error(problem),
  });
}

/** Returns the ports that `config` listens on and `running` does not. */
function findNewPorts(running: unknown, config: CaddyConfig): number[] {
  const before = new Set(parsePorts(running));
  return parsePorts(config).filter((port) => !before.has(port));
}

function parsePorts(config: unknown): number[] {
  const listening = canonicalJson(config).matchAll(/"listen":\[":(\d+)"\]/g);
  return [...listening].map(([, port]) => Number(port));
}

async function hasContent(file: string, text: string): Promise<boolean> {
  try {
    return (await readFile(file, "utf8")) === text;
  } catch {
    return false;
  }
}
