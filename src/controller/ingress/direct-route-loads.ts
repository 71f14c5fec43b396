import { readFile } from "node:fs/promises";
import { writeAtomically } from "../../base/atomic-file.ts";
import {
  createDirectRouteSet,
  type DirectRoute,
  type DirectRouteSet,
  noDirectRoutes,
  proposeDirectRoutes,
} from "./direct-routes.ts";
import type { FolderRouteTable } from "./folder-route-table.ts";
import type { Site } from "./site.ts";

/**
 * Decides which direct routes Caddy's configuration contains. The routes change only when the configuration is loaded
 * for another reason, or when Caddy starts, because a load closes connections during requests. Until then,
 * Caddy reads new targets from the table.
 */
export class DirectRouteLoads {
  readonly #table: FolderRouteTable;
  readonly #file: string;
  #current = noDirectRoutes;
  #isRead = false;
  #stored = "";

  /** `file` stores the direct routes of the loaded configuration for the next start of Berth. */
  constructor(options: { readonly table: FolderRouteTable; readonly file: string }) {
    this.#table = options.table;
    this.#file = options.file;
  }

  /** The direct routes of the configuration that is loaded or about to be loaded. */
  get current(): DirectRouteSet {
    return this.#current;
  }

  /**
   * Reads the direct routes of the Caddy that an earlier Berth left. If they are missing, the configuration is loaded
   * again.
   */
  async read(): Promise<void> {
    if (this.#isRead) return;
    const text = await readFile(this.#file, "utf8").catch(() => "[]");
    this.#current = createDirectRouteSet(parseRoutes(text));
    this.#isRead = true;
  }

  /**
   * Chooses the direct routes for the next load of the configuration. The routes of the configuration that is loaded
   * now stay valid until `confirm` is called.
   */
  async prepare(sites: readonly Site[]): Promise<void> {
    const set = await proposeDirectRoutes(sites, (app) => this.#findSlots(app));
    await this.#table.addDirectRoutes(set);
    this.#current = set;
  }

  /** Called when Caddy has loaded the current direct routes. */
  async confirm(): Promise<void> {
    await this.#table.addDirectRoutes(this.#current);
    await this.#table.retainDirectRoutes([this.#current]);
    if (this.#stored === this.#current.generation) return;
    await writeAtomically(this.#file, JSON.stringify(this.#current.routes));
    this.#stored = this.#current.generation;
  }

  async #findSlots(app: string): Promise<readonly (readonly string[])[]> {
    const route = await this.#table.read(app);
    return route && route.targets.length > 0 ? [route.targets] : [];
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
