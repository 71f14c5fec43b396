import { formatPercent } from "./format-text.ts";
import { toText } from "./print-value.ts";
import {
  compare,
  contains,
  equals,
  Float,
  isTruthy,
  nameType,
  SafeText,
  Tuple,
  toNumber,
  type Value,
  withoutSafety,
} from "./values.ts";

/** A repeated text or list has at most this number of characters or items. */
const REPEATED_MAX = 1_000_000;

/** Applies an operator that evaluates both sides. Throws for values that the operator does not accept. */
export function applyOperator(operator: string, first: Value, second: Value): Value {
  if (operator === "+" && (first instanceof SafeText || second instanceof SafeText)) {
    return addSafely(first, second);
  }
  const left = withoutSafety(first);
  const right = withoutSafety(second);
  switch (operator) {
    case "==":
      return equals(left, right);
    case "!=":
      return !equals(left, right);
    case "<":
      return compare(left, right) < 0;
    case "<=":
      return compare(left, right) <= 0;
    case ">":
      return compare(left, right) > 0;
    case ">=":
      return compare(left, right) >= 0;
    case "in":
      return contains(right, left);
    case "not in":
      return !contains(right, left);
    case "~":
      return toText(left) + toText(right);
    case "+":
      return add(left, right);
    case "*":
      return multiply(left, right);
    case "%":
      if (typeof left === "string") return formatPercent(left, right);
      break;
    default:
  }
  const [one, other] = [toNumber(left), toNumber(right)];
  if (one === undefined || other === undefined) throw unsupported(operator, left, right);
  return calculate(operator, one, other, left instanceof Float || right instanceof Float);
}

export function applyUnary(operator: string, value: Value): Value {
  if (operator === "not") return !isTruthy(value);
  const number = toNumber(value);
  if (number === undefined) throw new TypeError(`"${operator}" does not accept ${nameType(value)}`);
  const result = operator === "-" ? 0 - number : number;
  return value instanceof Float ? new Float(operator === "-" ? -number : number) : result;
}

/** Escapes the characters that have a meaning in HTML. */
export function escapeHtml(text: string): string {
  const entities: Readonly<Record<string, string>> = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    "'": "&#39;",
    '"': "&#34;",
  };
  return text.replaceAll(/[&<>'"]/g, (character) => entities[character] ?? character);
}

function addSafely(left: Value, right: Value): Value {
  const parts = [left, right].map((part) => {
    if (part instanceof SafeText) return part.text;
    if (typeof part === "string") return escapeHtml(part);
    throw unsupported("+", left, right);
  });
  return new SafeText(parts.join(""));
}

function add(left: Value, right: Value): Value {
  if (typeof left === "string" && typeof right === "string") return left + right;
  if (Array.isArray(left) && Array.isArray(right)) {
    if (left instanceof Tuple !== right instanceof Tuple) throw unsupported("+", left, right);
    return left instanceof Tuple ? Tuple.create(...left, ...right) : left.concat(right);
  }
  const [one, other] = [toNumber(left), toNumber(right)];
  if (one === undefined || other === undefined) throw unsupported("+", left, right);
  return calculate("+", one, other, left instanceof Float || right instanceof Float);
}

function multiply(left: Value, right: Value): Value {
  if (typeof left === "string" || Array.isArray(left)) return repeat(left, right);
  if (typeof right === "string" || Array.isArray(right)) return repeat(right, left);
  const [one, other] = [toNumber(left), toNumber(right)];
  if (one === undefined || other === undefined) throw unsupported("*", left, right);
  return calculate("*", one, other, left instanceof Float || right instanceof Float);
}

function repeat(value: string | Value[], factor: Value): Value {
  if (typeof factor !== "number" && typeof factor !== "boolean")
    throw unsupported("*", value, factor);
  const times = Number(factor);
  if (value.length * times > REPEATED_MAX)
    throw new RangeError(
      `the result of "*" would have more than ${REPEATED_MAX} characters or items`,
    );
  const count = Math.max(0, times);
  if (typeof value === "string") return value.repeat(count);
  const items = Array.from({ length: count }, () => value).flat();
  return value instanceof Tuple ? Tuple.create(...items) : items;
}

function calculate(operator: string, left: number, right: number, isFloat: boolean): Value {
  // An integer has no negative zero.
  const wrap = (result: number): Value => (isFloat ? new Float(result) : result + 0);
  switch (operator) {
    case "+":
      return wrap(left + right);
    case "-":
      return wrap(left - right);
    case "*":
      return wrap(left * right);
    case "/":
      assertNotZero(right);
      return new Float(left / right);
    case "//":
      assertNotZero(right);
      return wrap(Math.floor(left / right));
    case "%":
      assertNotZero(right);
      return wrap(getRemainder(left, right));
    case "**": {
      const result = left ** right;
      if (!Number.isFinite(result)) throw new RangeError('the result of "**" is too large');
      return isFloat || right < 0 ? new Float(result) : result;
    }
    default:
      throw new Error(`the operator "${operator}" is unknown`);
  }
}

/** Returns Python's remainder, which has the sign of the divisor. */
function getRemainder(left: number, right: number): number {
  const remainder = left - right * Math.floor(left / right);
  return remainder === 0 ? 0 * Math.sign(right) : remainder;
}

function assertNotZero(divisor: number): void {
  if (divisor === 0) throw new RangeError("division by zero");
}

function unsupported(operator: string, left: Value, right: Value): TypeError {
  return new TypeError(`"${operator}" does not accept ${nameType(left)} and ${nameType(right)}`);
}
