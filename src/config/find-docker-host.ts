import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Environment } from "../base/process-environment.ts";

/**
 * Returns the first engine socket that exists. If none exists, returns the usual path, so that error messages name
 * it.
 */
export function findDockerHost(environment: Environment, home: string): string {
  const usual = "/var/run/docker.sock";
  const runtime = environment["XDG_RUNTIME_DIR"];
  const candidates = [
    usual,
    ...(runtime ? [join(runtime, "docker.sock")] : []),
    join(home, ".docker/run/docker.sock"),
  ];
  return `unix://${candidates.find((path) => existsSync(path)) ?? usual}`;
}
