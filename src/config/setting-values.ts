import { isIP } from "node:net";
import {
  bytesPattern,
  cpuPattern,
  durationPattern,
  parseBytes,
  parseCpu,
  parseDuration,
} from "../base/units.ts";

/** The type of a setting: its description for messages, and its parser. */
export interface ValueType<Value> {
  /** The text that completes "KEY must be ..." in messages. */
  readonly expects: string;
  /** Parses a setting's text; returns undefined if the text is invalid. */
  readonly parse: (text: string) => Value | undefined;
}

function matching<Value>(
  pattern: RegExp,
  expects: string,
  parse: (text: string) => Value,
): ValueType<Value> {
  return { expects, parse: (value) => (pattern.test(value) ? parse(value) : undefined) };
}

export function text(pattern: RegExp, expects: string): ValueType<string> {
  return matching(pattern, expects, (value) => value);
}

/** Returns the type of a list of addresses and networks (CIDR), separated by commas. */
export function networks(): ValueType<readonly string[]> {
  const { parse } = list(/^\S+$/u, "");
  return {
    expects: "addresses or networks, such as 10.0.0.2 or 10.0.0.0/8, separated by commas",
    parse: (value) => {
      const items = parse(value);
      return items?.every(isNetwork) ? items : undefined;
    },
  };
}

/** True for an IP address or a network in CIDR notation. */
function isNetwork(value: string): boolean {
  const [address = "", bits, ...rest] = value.split("/");
  const version = isIP(address);
  const isPrefix =
    bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (version === 6 ? 128 : 32));
  return version !== 0 && isPrefix && rest.length === 0;
}

/**
 * Returns the type of a setting whose value is a list of texts, separated by commas. Spaces around the texts are
 * ignored.
 */
export function list(item: RegExp, expects: string): ValueType<readonly string[]> {
  return {
    expects,
    parse: (value) => {
      const items = value.split(",").map((one) => one.trim());
      return items.every((one) => item.test(one)) ? items : undefined;
    },
  };
}

export function folder(): ValueType<string> & { readonly isPath: true } {
  return { ...text(/./su, "a folder"), isPath: true };
}

export function file(): ValueType<string> & { readonly isPath: true } {
  return { ...text(/./su, "a file"), isPath: true };
}

export function choice<const Choice extends string>(
  ...choices: readonly Choice[]
): ValueType<Choice> {
  return {
    expects: `${choices.slice(0, -1).join(", ")} or ${choices.at(-1) ?? ""}`,
    parse: (value) => choices.find((one) => one === value),
  };
}

export function integer(min: number, max: number): ValueType<number> {
  return {
    expects: `a number of ${min} to ${max}`,
    parse: (value) => parseDecimal(value, min, max),
  };
}

export function port(zero: string): ValueType<number> {
  return {
    expects: `a port of 0 to 65535 (${zero})`,
    parse: (value) => parseDecimal(value, 0, 65_535),
  };
}

/** Parses a decimal number. Refuses leading zeros, which could be meant as octal. */
function parseDecimal(value: string, min: number, max: number): number | undefined {
  const number = Number(value);
  return /^(0|[1-9][0-9]*)$/.test(value) && number >= min && number <= max ? number : undefined;
}

export function duration(example: string): ValueType<number> {
  return matching(new RegExp(durationPattern), `a duration, such as ${example}`, parseDuration);
}

export function cpus(): ValueType<number> {
  return matching(new RegExp(cpuPattern), "a number of CPUs, such as 1.5", parseCpu);
}

export function bytes(expects: string): ValueType<number> {
  return matching(new RegExp(bytesPattern), expects, parseBytes);
}

/** Parses a size greater than zero. A fraction of a byte, such as 0.1, is rounded up to one byte. */
export function positiveBytes(expects: string): ValueType<number> {
  const pattern = bytesPattern.replace("^", "^(?!0*(\\.0*)?[A-Za-z]*$)");
  return matching(new RegExp(pattern), expects, (value) => Math.max(1, parseBytes(value)));
}
