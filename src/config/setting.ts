/** A row of a table of settings: the names of the setting, its default and its text in the help. */
export interface Setting<Value> {
  /** Name on the command line, such as `--data-dir`. */
  readonly flag: string;
  /** Name in the environment. */
  readonly variable: string;
  /** Placeholder of the value in the help, such as `<dir>`. */
  readonly argument: string;
  readonly help: string;
  /** Text that is parsed like a given one; undefined if the setting has no default. */
  readonly default: Value;
  /** The flag can be given several times; the variable separates the values by commas. */
  readonly isList?: boolean;
  /** The only values that the flag accepts, if the command line checks them itself. */
  readonly choices?: readonly string[];
}

/** A default, or a function that computes it from what is known at the start. */
export type Default<Context> = string | ((context: Context) => string);

export function resolveDefault<Context>(value: Default<Context>, context: Context): string {
  return typeof value === "string" ? value : value(context);
}

/** The flags of a table as the command line parses them: `keepAlive` for `--keep-alive`. */
export type SettingFlags<Settings> = {
  readonly [Name in keyof Settings]?:
    | (Settings[Name] extends { readonly isList: true } ? readonly string[] : string)
    | undefined;
};

/** Returns `--data-dir` for `data_dir`. */
export function createFlagName(key: string): string {
  return `--${key.replaceAll("_", "-")}`;
}
