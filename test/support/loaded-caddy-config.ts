import { join } from "node:path";
import { CaddyAdmin } from "../../src/controller/ingress/caddy-admin.ts";
import type { CaddyConfig } from "../../src/controller/ingress/caddy-config.ts";

const signal = new AbortController().signal;

/** Returns the configuration that the Caddy of this data directory has loaded. */
export function readLoadedConfig(dataDir: string): Promise<unknown> {
  return createAdmin(dataDir).readConfig(signal);
}

/** Loads a configuration into Caddy as another program would do it. */
export async function loadConfigByHand(dataDir: string, config: CaddyConfig): Promise<void> {
  const problem = await createAdmin(dataDir).load(config, signal);
  if (problem !== undefined) throw new Error(problem);
}

function createAdmin(dataDir: string): CaddyAdmin {
  return new CaddyAdmin(join(dataDir, "ingress", "admin.sock"));
}
