import { type Command, InvalidArgumentError, Option } from "commander";
import { BerthError } from "../base/errors.ts";
import { parseDuration } from "../base/units.ts";
import type { Setting } from "../config/setting.ts";

const outputFormats = ["json", "yaml", "wide", "name"] as const;
export type OutputFormat = (typeof outputFormats)[number];

/** Returns true for the formats that print the server's whole answer as one document. */
export function isDocumentFormat(format: OutputFormat | undefined): format is "json" | "yaml" {
  return format === "json" || format === "yaml";
}

export function outputOption(): Option {
  return new Option("-o, --output <format>", "output format").choices(outputFormats);
}

/** The flags that `addJsonOptions` adds. */
export interface JsonFlags {
  readonly json?: boolean;
  readonly output?: "json";
}

/** Adds --json and -o json to a verb whose answer is text for people, or one JSON document. */
export function addJsonOptions(
  command: Command,
  description = "print the answer of the companion as JSON",
): Command {
  return command
    .option("--json", `${description}, as -o json does`)
    .addOption(new Option("-o, --output <format>", "output format").choices(["json"]));
}

export function isJsonOutput({ json, output }: JsonFlags): boolean {
  return json === true || output === "json";
}

/** An option for a duration such as 90s or 5m; a plain number means seconds. Its value is in milliseconds. */
export function durationOption(flags: string, description: string, defaultValue?: string): Option {
  const option = new Option(flags, description).argParser(parseDurationMs);
  return defaultValue === undefined
    ? option
    : option.default(parseDurationMs(defaultValue), defaultValue);
}

function parseDurationMs(text: string): number {
  try {
    return parseDuration(/^\d+$/.test(text) ? `${text}s` : text);
  } catch (error) {
    const hint = error instanceof BerthError ? error.hint : undefined;
    throw new InvalidArgumentError(hint ?? "it is not a duration");
  }
}

export function integerBetween(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (!/^\d+$/.test(text) || value < min || value > max)
      throw new InvalidArgumentError(`it must be a whole number from ${min} to ${max}`);
    return value;
  };
}

/** Collects the values of an option that can be repeated. */
export function collectValues(value: string, previous: readonly string[] | undefined): string[] {
  return [...(previous ?? []), value];
}

/** Adds a flag for each row of a table of settings, in the order of the table. */
export function addSettingOptions(
  command: Command,
  settings: Readonly<Record<string, Setting<unknown>>>,
): Command {
  for (const { flag, argument, help, isList, choices } of Object.values(settings)) {
    const option = new Option(`${flag} ${argument}`, help);
    if (isList === true) option.argParser(collectValues);
    if (choices) option.choices([...choices]);
    command.addOption(option);
  }
  return command;
}

/** Adds the argument and the option -f, both of which name files. `requireFiles` reads both. */
export function addFilenameOption(command: Command): Command {
  return command
    .argument("[file...]", "files and folders, as with -f")
    .option(
      "-f, --filename <path>",
      "file, folder or - for standard input; can be repeated",
      collectValues,
    );
}

/** The flags --wait and --timeout of the verbs that change an app. */
export interface WaitFlags {
  readonly wait?: boolean;
  readonly timeout: number;
}

export function addWaitOptions(command: Command): Command {
  return command
    .option("--wait", "wait until the change is complete or has failed")
    .addOption(durationOption("--timeout <duration>", "maximum time of --wait", "5m"));
}

/** Adds examples below the help of a verb: command lines, each with its effect. */
export function addExamples(
  command: Command,
  examples: readonly (readonly [string, string])[],
): Command {
  const width = Math.max(...examples.map(([line]) => line.length));
  const lines = examples.map(([line, meaning]) => `  ${line.padEnd(width)}  ${meaning}`);
  return command.addHelpText("after", `\nExamples:\n${lines.join("\n")}`);
}
