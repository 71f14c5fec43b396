import { readFile } from "node:fs/promises";
import { writeAtomically } from "../../base/atomic-file.ts";
import { canonicalJson, deepEqual, hashJson } from "../../base/canonical-json.ts";
import { type Clock, delay } from "../../base/clock.ts";
import { BerthError } from "../../base/errors.ts";
import type { Logger } from "../../base/logger.ts";
import { CaddyAdmin } from "./caddy-admin.ts";
import { buildCaddyConfig, type CaddyConfig, type CaddySettings } from "./caddy-config.ts";
import type { CaddyHost, IngressPaths } from "./caddy-host.ts";
import type { Site } from "./site.ts";

/** Debian's Caddy is up within half a second; a container on a busy machine takes seconds. */
const START_LIMIT_MS = 15_000;
const START_POLL_MS = 50;
/** What a Caddy is taken for until it says its version: nothing later is used then. */
const OLDEST_VERSION = "2.6.0";

export interface CaddyConfigLoaderOptions {
  readonly host: CaddyHost;
  readonly paths: IngressPaths;
  readonly settings: Omit<CaddySettings, "folder" | "adminSocket" | "version">;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Only in tests: the configuration as Caddy gets it. */
  readonly render?: (settings: CaddySettings, sites: readonly Site[]) => CaddyConfig;
}

/**
 * Brings Caddy to a configuration: starts it where it does not run, reads back what it has, and loads only what
 * differs. Where Caddy refuses the whole, the Apps whose options it does not take are found out and left out.
 */
export class CaddyConfigLoader {
  readonly #options: CaddyConfigLoaderOptions;
  readonly #admin: CaddyAdmin;
  readonly #render: (settings: CaddySettings, sites: readonly Site[]) => CaddyConfig;
  #version: string | undefined;
  /** What was taken over from an earlier Berth is as this one would make it. */
  #isChecked = false;
  /** What Caddy had against a site, by the site's digest: it is not asked again. */
  #refusalsByDigest = new Map<string, string>();

  constructor(options: CaddyConfigLoaderOptions) {
    this.#options = options;
    this.#admin = new CaddyAdmin(options.paths.adminSocket);
    this.#render = options.render ?? buildCaddyConfig;
  }

  get version(): string | undefined {
    return this.#version;
  }

  /** A Caddy that answers, and nothing more is asked of it. */
  async isUp(signal: AbortSignal): Promise<boolean> {
    return this.#admin.isAnswering(signal);
  }

  /**
   * Returns what Caddy has against single Apps, by their names; they are not served. Throws where no
   * Caddy can be had, or where it refuses what is no App's.
   */
  async apply(sites: readonly Site[], signal: AbortSignal): Promise<ReadonlyMap<string, string>> {
    const { host, paths, logger } = this.#options;
    this.#pruneRefusals(sites);
    this.#version ??= await host.version(signal);
    let running = await this.#admin.readConfig(signal);
    if (running === undefined || !(this.#isChecked || (await host.isUpToDate(signal)))) {
      if (running !== undefined || !(await this.#waitForRecovery(signal)))
        await this.#start(sites, signal);
      running = await this.#admin.readConfig(signal);
    }
    this.#isChecked = true;
    const known = this.#version;
    this.#version ??= await host.version(signal);
    if (known !== this.#version) logger.debug({ version: this.#version }, "caddy's version");

    let accepted = this.#withoutRefused(sites);
    let config = this.#config(accepted);
    if (!deepEqual(running, config)) {
      await host.assertPortsAvailable(findNewPorts(running, config), signal);
      const problem = await this.#admin.load(config, signal);
      if (problem !== undefined) {
        logger.warn({ error: problem }, "caddy refuses its configuration");
        accepted = await this.#findAccepted(sites, signal);
        config = this.#config(accepted);
        const rest = await this.#admin.load(config, signal);
        if (rest !== undefined) {
          // The program was replaced while an older one runs, which does not know all of this.
          await host.stop(signal);
          throw configRefusedError(rest);
        }
      }
      logger.info({ apps: accepted.length }, "caddy has loaded its configuration");
    }
    const text = JSON.stringify(config);
    if (!(await hasContent(paths.configFile, text))) await writeAtomically(paths.configFile, text);
    return this.#collectRefusals(sites);
  }

  /** With everything; where that does not come up, and cannot be tried beforehand, with nothing of any App. */
  async #start(sites: readonly Site[], signal: AbortSignal): Promise<void> {
    const { host, logger } = this.#options;
    const accepted = await this.#findAccepted(sites, signal);
    await host.start(this.#config(accepted), signal);
    if (await this.#waitUntilUp(signal)) return;
    if (!(await host.isRunning(signal)) && accepted.length > 0) {
      logger.warn({}, "caddy does not start with the options of the apps, and is started without");
      await host.start(this.#config([]), signal);
      if (await this.#waitUntilUp(signal)) return;
    }
    // It has hung, or has lost its socket: the next round begins with another one.
    await host.stop(signal);
    throw new BerthError("internal", "Caddy does not answer", {
      hint: "look into caddy.log and caddy.out in the ingress folder of the data directory",
    });
  }

  /**
   * True where a Caddy that runs, and did not answer, does so after all, as one that is just starting. One that
   * hangs is ended before anything else is tried: it may hold locks that a check of its successor waits for.
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
      // Not at each turn: with containers, it is a question to the engine.
      if (round % 10 === 0 && !(await host.isRunning(signal))) return false;
      await delay(clock, START_POLL_MS, signal);
    }
    return false;
  }

  /** Halves what Caddy refuses until the Apps that it does not take are found. */
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
        logger.warn({ app: only.app, error: found }, "caddy refuses the options of an app");
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
    const { settings, paths } = this.#options;
    const { folder, adminSocket } = paths;
    const version = this.#version ?? OLDEST_VERSION;
    return this.#render({ ...settings, folder, adminSocket, version }, sites);
  }
}

function configRefusedError(problem: string): BerthError {
  return new BerthError("internal", "Caddy refuses its configuration", {
    hint: "the log of Berth has what Caddy says",
    cause: new Error(problem),
  });
}

/** Ports that `config` listens on and `running` does not. */
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
