import type { Command } from "commander";
import type { ConfigInput } from "../config/config.ts";
import { type ServerFlags, serverSettings } from "../config/server-settings.ts";
import type { Cli } from "./cli.ts";
import { addSettingOptions } from "./command-options.ts";

/** --data-dir and --config are flags of the program, before any verb, so the verb does not add them. */
const { dataDir: _, ...verbSettings } = serverSettings;

/**
 * Adds the server's options without checks: `loadConfig` validates the values of all sources, with the same messages.
 */
export function addServerOptions(command: Command): Command {
  return addSettingOptions(command, verbSettings);
}

export function toConfigFlags(cli: Cli, flags: ServerFlags): NonNullable<ConfigInput["flags"]> {
  const { config, dataDir } = cli.globals;
  const given = new Map<string, string | undefined>(Object.entries(flags));
  const settings = Object.entries(verbSettings);
  return {
    config,
    data_dir: dataDir,
    ...Object.fromEntries(settings.map(([name, { key }]) => [key, given.get(name)])),
  };
}
