import { createHash } from "node:crypto";
import { canonicalJson } from "../../../base/canonical-json.ts";
import type { LogFormat } from "../../../base/logger.ts";
import type { Environment } from "../../../base/process-environment.ts";
import type { AssistantSettings } from "../../../config/config.ts";
import type { AssistantIdentity } from "./control-responses.ts";

/** The launch parameters that are not settings of the assistant. */
export interface AssistantLaunchSettings {
  readonly version: string;
  readonly logFormat: LogFormat;
  readonly logLevel: string;
}

interface AssistantLaunch extends AssistantLaunchSettings {
  readonly program: readonly string[];
  readonly settings: AssistantSettings;
  readonly owner: string;
  readonly environment: Environment;
}

/** Builds the command line of the assistant. */
export function buildAssistantCommand(
  start: AssistantLaunch,
  startedBy: string,
): readonly string[] {
  return [...start.program, "assistant", ...buildFlags(start), "--started-by", startedBy];
}

/**
 * Returns the text by which a later process recognises an assistant that this Berth has started. The text contains the
 * `owner` of the launch, and a digest of the version and all settings of the assistant.
 */
export function computeStartedBy(start: AssistantLaunch): string {
  const { version, environment, owner } = start;
  // The assistant reads further settings from the variables BERTH_ASSISTANT*, so the digest depends on these variables,
  // too.
  const settings = Object.fromEntries(
    Object.entries(environment).filter(([name]) => name.startsWith("BERTH_ASSISTANT")),
  );
  const digest = createHash("sha256")
    .update(canonicalJson([version, buildFlags(start), settings]))
    .digest("hex");
  return `${owner}/${digest.slice(0, 16)}`;
}

/**
 * Classifies a running assistant: `ours` runs as this Berth would start it, `outdated` was started by this Berth, but
 * with another version or other settings, and `foreign` was started by another process.
 */
export function classifyOwnership(
  { startedBy }: AssistantIdentity,
  ownStartedBy: string,
): "ours" | "outdated" | "foreign" {
  if (startedBy === ownStartedBy) return "ours";
  const owner = ownStartedBy.slice(0, ownStartedBy.lastIndexOf("/") + 1);
  return startedBy?.startsWith(owner) === true ? "outdated" : "foreign";
}

function buildFlags({ settings, logFormat, logLevel }: AssistantLaunch): readonly string[] {
  const { dataDir, port, memoryBytesMax } = settings;
  return [
    "--system",
    `--data-dir=${dataDir}`,
    `--port=${port}`,
    ...(memoryBytesMax === undefined ? [] : [`--memory=${memoryBytesMax}`]),
    `--log-format=${logFormat}`,
    `--log-level=${logLevel}`,
  ];
}
