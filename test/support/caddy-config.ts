import { join } from "node:path";
import { CaddyAdmin } from "../../src/controller/ingress/caddy-admin.ts";
import type { CaddyConfig } from "../../src/controller/ingress/caddy-config.ts";

const signal = new AbortController().signal;

/** What the Caddy of a data directory has loaded. */
export function loadedConfig(dataDir: string): Promise<unknown> {
  return adminOf(dataDir).config(signal);
}

/** A change by other hands. */
export async function loadByHand(dataDir: string, config: CaddyConfig): Promise<void> {
  const problem = await adminOf(dataDir).load(config, signal);
  if (problem !== undefined) throw new Error(problem);
}

function adminOf(dataDir: string): CaddyAdmin {
  return new CaddyAdmin(join(dataDir, "ingress", "admin.sock"));
}
