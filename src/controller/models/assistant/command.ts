import { createHash } from "node:crypto";
import { canonicalJson } from "../../../base/canonical.ts";
import type { Environment } from "../../../base/environment.ts";
import type { LogFormat } from "../../../base/logger.ts";
import type { AssistantSettings } from "../../../config/config.ts";
import type { AssistantIdentity } from "./control-answers.ts";

/** What an assistant is started with, beside its settings. */
export interface Outfit {
  readonly version: string;
  readonly logFormat: LogFormat;
  readonly logLevel: string;
}

interface Start extends Outfit {
  readonly program: readonly string[];
  readonly settings: AssistantSettings;
  readonly owner: string;
  readonly environment: Environment;
}

/** The assistant's command line. */
export function assistantCommand(start: Start, mark: string): readonly string[] {
  return [...start.program, "assistant", ...flagsOf(start), "--started-by", mark];
}

/**
 * By which an assistant is known again, whoever runs now: whose it is, and a digest of all that it was
 * started with. Another version, or other settings, are another digest.
 */
export function markOf(start: Start): string {
  const { version, environment, owner } = start;
  // It reads further settings from there.
  const settings = Object.fromEntries(
    Object.entries(environment).filter(([name]) => name.startsWith("BERTH_ASSISTANT")),
  );
  const digest = createHash("sha256")
    .update(canonicalJson([version, flagsOf(start), settings]))
    .digest("hex");
  return `${owner}/${digest.slice(0, 16)}`;
}

/** ours: as we would start it. outdated: ours of another version, or with other settings. */
export function whose(
  { startedBy }: AssistantIdentity,
  mark: string,
): "ours" | "outdated" | "foreign" {
  if (startedBy === mark) return "ours";
  const owner = mark.slice(0, mark.lastIndexOf("/") + 1);
  return startedBy?.startsWith(owner) === true ? "outdated" : "foreign";
}

function flagsOf({ settings, logFormat, logLevel }: Start): readonly string[] {
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
