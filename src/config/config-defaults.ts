import { existsSync } from "node:fs";
import { isAbsolute, join } from "node:path";
import { resolveAssistantDataDir } from "../base/assistant-paths.ts";
import { defaultPorts } from "../base/default-ports.ts";
import type { Environment } from "../base/process-environment.ts";
import type { ConfigKey } from "./config-schema.ts";

/** Settings that are not set unless somebody sets them. */
export const keysWithoutDefault = [
  "templates_dir",
  "acme_email",
  "build_memory",
  "build_cpu",
  "specs_git_url",
  "specs_git_ref",
  "specs_git_credential",
  "assistant_memory",
  "models_bandwidth",
] as const;
export type SettingWithoutDefault = (typeof keysWithoutDefault)[number];
export type SettingWithDefault = Exclude<ConfigKey, SettingWithoutDefault>;

export function hasDefault(key: ConfigKey): key is SettingWithDefault {
  return !keysWithoutDefault.some((item) => item === key);
}

/** What the defaults depend on. Paths are absolute. */
export interface ConfigContext {
  readonly environment: Environment;
  readonly workingDirectory: string;
  readonly home: string;
  readonly userId: number;
  readonly isTerminal: boolean;
}

/** As a config file would have them; `dataDir` is the one that counts, wherever it was set. */
export function createDefaultSettings(
  dataDir: string,
  surroundings: ConfigContext,
): Record<SettingWithDefault, string> {
  const { environment, workingDirectory, home, userId, isTerminal } = surroundings;
  const local = join(workingDirectory, "specs");
  const isRoot = userId === 0;
  return {
    data_dir: dataDir,
    specs_dir: existsSync(local) ? local : join(dataDir, "specs"),
    listen: `127.0.0.1:${defaultPorts.api}`,
    docker_host: findDockerHost(environment, home),
    ingress: "auto",
    ingress_image: "caddy:2",
    http_port: isRoot ? "80" : "8080",
    https_port: isRoot ? "443" : "8443",
    build_concurrency: "1",
    build_timeout: "30m",
    build_keep: "5",
    build_disk: "20Gi",
    upload_limit: "512Mi",
    specs_git_path: ".",
    specs_git_interval: "1m",
    assistant: "on",
    assistant_port: String(defaultPorts.system),
    assistant_data_dir:
      dataDir === getDefaultDataDir(surroundings)
        ? // That of `berth assistant`, whose models and ledger are those of the machine.
          resolveAssistantDataDir({ environment, workingDirectory, homeDirectory: home, userId })
        : join(dataDir, "assistant"),
    companion: "auto",
    companion_port: String(defaultPorts.companion),
    models_disk: "50Gi",
    hf_endpoint: "https://huggingface.co",
    base_domain: "localhost",
    log_format: isTerminal ? "pretty" : "json",
    log_level: "info",
  };
}

export function getDefaultDataDir({ environment, home, userId }: ConfigContext): string {
  if (userId === 0) return "/var/lib/berth";
  const state = environment["XDG_STATE_HOME"];
  // The XDG specification says that a relative value is invalid and to be ignored.
  return join(state && isAbsolute(state) ? state : join(home, ".local/state"), "berth");
}

/** The first engine socket that exists; the usual place where none does, so that errors name it. */
function findDockerHost(environment: Environment, home: string): string {
  const usual = "/var/run/docker.sock";
  const runtime = environment["XDG_RUNTIME_DIR"];
  const candidates = [
    usual,
    ...(runtime ? [join(runtime, "docker.sock")] : []),
    join(home, ".docker/run/docker.sock"),
  ];
  return `unix://${candidates.find((path) => existsSync(path)) ?? usual}`;
}
