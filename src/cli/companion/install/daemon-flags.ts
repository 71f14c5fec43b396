import { existsSync } from "node:fs";
import { resolve } from "node:path";
import type { Command } from "commander";
import { UsageError } from "../../cli-errors.ts";

/** Flags that the installation sets itself, or that only Berth uses. */
const omittedFlags: ReadonlySet<string> = new Set(["--user", "--started-by"]);

/**
 * Returns the flags of `berth assistant` for the unit file. Paths are absolute, because the daemon is started in
 * another directory. Throws UsageError for --system.
 */
export function collectDaemonFlags(
  assistant: Command,
  globals: { readonly dataDir?: string; readonly config?: string },
  workingDirectory: string,
): string[] {
  if (assistant.getOptionValue("system") === true)
    throw new UsageError(
      "--system is refused, because only your companion can be installed, not the system instance",
      "omit --system; `berth up` starts the system instance",
    );
  const absolute = (text: string) => resolve(workingDirectory, text);
  const flags: string[] = [];
  if (globals.dataDir !== undefined) flags.push("--data-dir", absolute(globals.dataDir));
  if (globals.config !== undefined) flags.push("--config", absolute(globals.config));
  for (const option of assistant.options) {
    const { long } = option;
    const name = option.attributeName();
    if (!long || omittedFlags.has(long) || assistant.getOptionValueSource(name) !== "cli") continue;
    const value: unknown = assistant.getOptionValue(name);
    const values = Array.isArray(value) ? value : [value];
    for (const each of values) {
      if (each === true) flags.push(long);
      else
        flags.push(
          long,
          long === "--model" ? resolveModelFlag(String(each), absolute) : String(each),
        );
    }
  }
  return flags;
}

/** Makes the path in `[id=]file` absolute. The id of a model stays unchanged. */
function resolveModelFlag(text: string, absolute: (text: string) => string): string {
  const [, id = "", file = ""] = /^([^=/]+=)?(.*)$/.exec(text) ?? [];
  return existsSync(absolute(file)) ? `${id}${absolute(file)}` : text;
}
