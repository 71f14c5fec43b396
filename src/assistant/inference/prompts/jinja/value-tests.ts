import { Loop } from "./loop.ts";
import { toText } from "./print-value.ts";
import {
  compare,
  contains,
  equals,
  Float,
  hasNoIndex,
  nameType,
  SafeText,
  toNumber,
  type Value,
  withoutSafety,
} from "./values.ts";

type ValueTest = (value: Value, argument: Value) => boolean;

/** The tests of the template language, such as `value is defined`. */
const valueTests: ReadonlyMap<string, ValueTest> = new Map<string, ValueTest>([
  ["defined", (value) => value !== undefined],
  ["undefined", (value) => value === undefined],
  ["none", (value) => value === null],
  ["boolean", (value) => typeof value === "boolean"],
  ["true", (value) => value === true],
  ["false", (value) => value === false],
  ["integer", (value) => typeof value === "number"],
  ["float", (value) => value instanceof Float],
  // In Python a boolean is a number too.
  ["number", (value) => toNumber(value) !== undefined],
  ["string", (value) => typeof value === "string"],
  ["mapping", (value) => value instanceof Map],
  ["iterable", (value) => isIterable(value)],
  ["sequence", (value) => isIterable(value) && !hasNoIndex(value)],
  ["callable", (value) => isCallable(value)],
  ["lower", (value) => isOneCase(toText(value).toLowerCase(), value)],
  ["upper", (value) => isOneCase(toText(value).toUpperCase(), value)],
  ["odd", (value) => getRemainder(value, 2) === 1],
  ["even", (value) => getRemainder(value, 2) === 0],
  ["divisibleby", (value, argument) => getRemainder(value, argument) === 0],
  ["sameas", (value, argument) => value === argument],
  ["in", (value, argument) => contains(argument, value)],
  ...withNames(["eq", "equalto", "=="], equals),
  ...withNames(["ne", "!="], (value, argument) => !equals(value, argument)),
  ...withNames(["lt", "lessthan", "<"], (value, argument) => compare(value, argument) < 0),
  ...withNames(["le", "<="], (value, argument) => compare(value, argument) <= 0),
  ...withNames(["gt", "greaterthan", ">"], (value, argument) => compare(value, argument) > 0),
  ...withNames(["ge", ">="], (value, argument) => compare(value, argument) >= 0),
]);

/** Applies the test with this name. Throws if there is none. */
export function applyTest(name: string, value: Value, argument: Value): boolean {
  if (name === "escaped") return value instanceof SafeText;
  const test = valueTests.get(name);
  if (test === undefined) throw new Error(`there is no test "${name}"`);
  return test(withoutSafety(value), withoutSafety(argument));
}

export function isTestName(name: Value): boolean {
  return typeof name === "string" && (name === "escaped" || valueTests.has(name));
}

function withNames(names: readonly string[], test: ValueTest): readonly [string, ValueTest][] {
  return names.map((name) => [name, test]);
}

/** An undefined value counts as callable, because Jinja's has a method for calls, which fails. */
function isCallable(value: Value): boolean {
  return typeof value === "function" || value instanceof Loop || value === undefined;
}

function isIterable(value: Value): boolean {
  return (
    value === undefined || typeof value === "string" || Array.isArray(value) || value instanceof Map
  );
}

/**
 * Returns true if the value equals `text`, which is the value in upper or lower case, and contains a letter that has
 * both cases.
 */
function isOneCase(text: string, value: Value): boolean {
  return toText(value) === text && text.toLowerCase() !== text.toUpperCase();
}

function getRemainder(value: Value, divisor: Value): number {
  const [number, by] = [toNumber(value), toNumber(divisor)];
  if (number === undefined || by === undefined || by === 0)
    throw new TypeError(`${nameType(value)} cannot be divided`);
  return number - by * Math.floor(number / by);
}
