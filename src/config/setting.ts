/** A row of a table of settings: the names of the setting, its default and its text in the help. */
export interface Setting<Value> {
  /** Name on the command line, such as `--data-dir`. */
  readonly flag: string;
  /** Name of the environment variable. */
  readonly variable: string;
  /** Placeholder of the value in the help, such as `<dir>`. */
  readonly argument: string;
  readonly help: string;
  /** The default, as a text that is parsed like a given value; undefined if the setting has no default. */
  readonly default: Value;
  /** True if the flag can be given several times. The environment variable separates the values by commas. */
  readonly isList?: boolean;
  /** The only values that the flag accepts, if the command line checks them itself. */
  readonly choices?: readonly string[];
}

/**
 * The default value of a setting, or a function that computes it from the context of the process, such as the
 * environment and the working directory.
 */
export type Default<Context> = string | ((context: Context) => string);

export function resolveDefault<Context>(value: Default<Context>, context: Context): string {
  return typeof value === "string" ? value : value(context);
}

/**
 * The values of the flags of a settings table, as the command line parses them. Their names are such as `keepAlive` for
 * `--keep-alive`.
 */
export type SettingFlags<Settings> = {
  readonly [Name in keyof Settings]?:
    | (Settings[Name] extends { readonly isList: true } ? readonly string[] : string)
    | undefined;
};

/** Returns the flag of a setting, such as `--data-dir` for `data_dir`. */
export function createFlagName(key: string): string {
  return `--${key.replaceAll("_", "-")}`;
}
