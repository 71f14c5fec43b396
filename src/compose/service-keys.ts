import { formatSuggestion } from "../base/spelling-suggestions.ts";

/** The supported keys of a service. For an unknown key, the most similar of them is suggested. */
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
  "platform",
  "ports",
  "profiles",
  "pull_policy",
  "restart",
  "scale",
  "secrets",
  "stop_grace_period",
  "stop_signal",
  "tmpfs",
  "ulimits",
  "user",
  "volumes",
  "working_dir",
];

/** Suggests the supported key that the user probably meant by an unknown key. */
export function suggestServiceKey(key: string): string {
  return supportedKeys.includes(key) ? "" : formatSuggestion(key, supportedKeys);
}
