import { formatSuggestion } from "../base/spelling-suggestions.ts";

/** Keys of a service that are supported, for "did you mean". */
const supportedKeys: readonly string[] = [
  "build",
  "command",
  "configs",
  "container_name",
  "cpus",
  "depends_on",
  "deploy",
  "entrypoint",
  "env_file",
  "environment",
  "expose",
  "extends",
  "healthcheck",
  "hostname",
  "image",
  "labels",
  "links",
  "mem_limit",
  "network_mode",
  "networks",
  "ports",
  "profiles",
  "pull_policy",
  "restart",
  "scale",
  "secrets",
  "stop_grace_period",
  "stop_signal",
  "tmpfs",
  "user",
  "volumes",
  "working_dir",
];

/** Suggests the supported key that an unknown one probably means. */
export function suggestServiceKey(key: string): string {
  return supportedKeys.includes(key) ? "" : formatSuggestion(key, supportedKeys);
}
