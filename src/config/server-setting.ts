import type { Environment } from "../base/process-environment.ts";
import { createFlagName, type Default, type Setting } from "./setting.ts";
import type { ValueType } from "./setting-values.ts";

/** Values of the process from which the defaults of settings are computed. Paths are absolute. */
export interface ConfigContext {
  readonly dataDir: string;
  readonly environment: Environment;
  readonly workingDirectory: string;
  readonly home: string;
  readonly userId: number;
  readonly isTerminal: boolean;
}

type ServerDefault = Default<ConfigContext> | undefined;

interface ServerSettingRow<Key extends string, Value, D extends ServerDefault>
  extends ValueType<Value> {
  /** The name of the setting in a config file. The flag and the variable are derived from it. */
  readonly key: Key;
  /**
   * Name of an environment variable that other programs also use for this setting; if absent, the name is derived from
   * the key.
   */
  readonly variable?: string;
  readonly argument: string;
  readonly help: string;
  readonly default: D;
  /**
   * True if the value is a path. Relative paths are resolved against the folder of the config file, or against the
   * working directory.
   */
  readonly isPath?: boolean;
}

export type ServerSetting<
  Key extends string = string,
  Value = unknown,
  D extends ServerDefault = ServerDefault,
> = Setting<D> & ServerSettingRow<Key, Value, D>;

/** Adds the names of the flag and of the environment variable, which are derived from the key, to a server setting. */
export function setting<const Key extends string, Value, D extends ServerDefault>(
  row: ServerSettingRow<Key, Value, D>,
): ServerSetting<Key, Value, D> {
  const { key } = row;
  return { flag: createFlagName(key), variable: `BERTH_${key.toUpperCase()}`, ...row };
}
