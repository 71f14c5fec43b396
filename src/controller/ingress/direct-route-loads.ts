import { readFile } from "node:fs/promises";
import { writeAtomically } from "../../base/atomic-file.ts";
import {
  createDirectRouteSet,
  type DirectRoute,
  type DirectRouteSet,
  noDirectRoutes,
  pairTargets,
  proposeDirectRoutes,
} from "./direct-routes.ts";
import type { FolderRouteTable } from "./folder-route-table.ts";
import type { Site } from "./site.ts";

export interface DirectRouteLoadsOptions {
  readonly table: FolderRouteTable;
  /** The file that stores the direct routes of the loaded configuration for the next Berth process. */
  readonly file: string;
  /**
   * Returns the address range that is reserved for Apps' containers, in which each replica has a pair of addresses;
   * undefined if the engine chooses all addresses.
   */
  readonly findReservedRange: (signal: AbortSignal) => Promise<string | undefined>;
}

/**
 * Decides which direct routes Caddy's configuration contains. The routes change only when the configuration is loaded
 * for another reason, or when Caddy starts, because a load closes connections during requests. Until then,
 * Caddy reads new targets from the table.
 */
export class DirectRouteLoads {
  readonly #options: DirectRouteLoadsOptions;
  #current = noDirectRoutes;
  #isRead = false;
  #stored = "";

  constructor(options: DirectRouteLoadsOptions) {
    this.#options = options;
  }

  /** The direct routes of the configuration that is loaded or about to be loaded. */
  get current(): DirectRouteSet {
    return this.#current;
  }

  /**
   * Reads the direct routes that an earlier Berth process stored for the running Caddy. If the file is missing, the
   * comparison with Caddy's configuration fails, and the configuration is loaded again.
   */
  async read(): Promise<void> {
    if (this.#isRead) return;
    const text = await readFile(this.#options.file, "utf8").catch(() => "[]");
    this.#current = createDirectRouteSet(parseRoutes(text));
    this.#isRead = true;
  }

  /**
   * Chooses the direct routes for the next load of the configuration. Until `confirm` is called, the direct routes of
   * the previous configuration stay valid too.
   */
  async prepare(sites: readonly Site[], signal: AbortSignal): Promise<void> {
    const reserved = await this.#options.findReservedRange(signal);
    const set = await proposeDirectRoutes(sites, (app) => this.#findSlots(app, reserved));
    await this.#options.table.addDirectRoutes(set);
    this.#current = set;
  }

  /** Called when Caddy has loaded the current direct routes. */
  async confirm(): Promise<void> {
    await this.#options.table.addDirectRoutes(this.#current);
    await this.#options.table.retainDirectRoutes([this.#current]);
    if (this.#stored === this.#current.generation) return;
    await writeAtomically(this.#options.file, JSON.stringify(this.#current.routes));
    this.#stored = this.#current.generation;
  }

  /**
   * Returns the slots of an App's direct route: its current targets and, if their addresses are known, the targets of
   * its next version.
   */
  async #findSlots(app: string, reserved: string | undefined) {
    const { targets } = (await this.#options.table.read(app)) ?? { targets: [] };
    if (targets.length === 0) return [];
    const next = reserved === undefined ? undefined : pairTargets(reserved, targets);
    return next === undefined ? [targets] : [targets, next];
  }
}

function parseRoutes(text: string): DirectRoute[] {
  try {
    const value: unknown = JSON.parse(text);
    return Array.isArray(value) && value.every(isDirectRoute) ? value : [];
  } catch {
    return [];
  }
}

function isDirectRoute(value: unknown): value is DirectRoute {
  if (typeof value !== "object" || value === null) return false;
  if (!("app" in value && "hosts" in value && "slots" in value)) return false;
  const { app, hosts, slots } = value;
  return (
    typeof app === "string" && isTextList(hosts) && Array.isArray(slots) && slots.every(isTextList)
  );
}

function isTextList(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((item) => typeof item === "string");
}
