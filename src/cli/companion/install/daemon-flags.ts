import { existsSync } from "node:fs";
import { resolve } from "node:path";
import type { Command } from "commander";
import { UsageError } from "../../cli-errors.ts";

/** Said by the installation itself, or by nobody but Berth. */
const omittedFlags: ReadonlySet<string> = new Set(["--user", "--started-by"]);

/**
 * The flags that were given to `berth assistant`, to be written down: with paths from the root, since the daemon
 * is started elsewhere. Throws UsageError for --system.
 */
export function collectDaemonFlags(
  assistant: Command,
  globals: { readonly dataDir?: string; readonly config?: string },
  workingDirectory: string,
): string[] {
  if (assistant.getOptionValue("system") === true)
    throw new UsageError(
      "what is installed is a person's companion, not the system instance",
      "leave --system out; `berth up` starts the system instance",
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

/** `[id=]file`, or the id of a model, which is no file. */
function resolveModelFlag(text: string, absolute: (text: string) => string): string {
  const [, id = "", file = ""] = /^([^=/]+=)?(.*)$/.exec(text) ?? [];
  return existsSync(absolute(file)) ? `${id}${absolute(file)}` : text;
}
