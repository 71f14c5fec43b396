import { toText } from "./print-value.ts";
import { type Arguments, Attributes, iterate, type Value } from "./values.ts";

/**
 * The maximum number of iterations of `range()`, as in Jinja's sandbox. Templates use `range()` to count messages, and
 * conversations have far fewer messages.
 */
const RANGE_MAX = 100_000;

/** The constants and functions that every template has. */
export const globals: ReadonlyMap<string, Value> = new Map<string, Value>([
  ["true", true],
  ["false", false],
  ["none", null],
  ["True", true],
  ["False", false],
  ["None", null],
  ["range", listRange],
  ["namespace", (args) => new Attributes(listMembers(args))],
  ["dict", (args) => new Map<Value, Value>(listMembers(args))],
  ["joiner", createJoiner],
  ["cycler", createCycler],
]);

function listRange(args: Arguments): Value {
  const first = args.getInteger(0, "start", 0);
  const [from, to] =
    args.positional.length < 2 ? [0, first] : [first, args.getInteger(1, "stop", 0)];
  const step = args.getInteger(2, "step", 1);
  const count = Math.max(0, Math.ceil((to - from) / step));
  if (!(count <= RANGE_MAX)) throw new Error(`range() has more than ${RANGE_MAX} numbers`);
  return Array.from({ length: count }, (_, index) => from + index * step);
}

function listMembers({ positional: [source], named }: Arguments): readonly [string, Value][] {
  const pairs = source instanceof Map ? [...source] : iterate(source).map((pair) => iterate(pair));
  return [...pairs.map(([key, value]): [string, Value] => [toText(key), value]), ...named];
}

/** Creates a function that returns the empty text once, and then the separator. */
function createJoiner(args: Arguments): Value {
  const separator = args.getText(0, "sep", ", ");
  let isUsed = false;
  return () => {
    const text = isUsed ? separator : "";
    isUsed = true;
    return text;
  };
}

function createCycler({ positional }: Arguments): Value {
  const cycler = new Attributes([["current", positional[0]]]);
  let index = 0;
  const moveTo = (next: number): void => {
    index = next % Math.max(1, positional.length);
    cycler.values.set("current", positional[index]);
  };
  cycler.values.set("next", () => {
    const value = positional[index];
    moveTo(index + 1);
    return value;
  });
  cycler.values.set("reset", () => {
    moveTo(0);
    return null;
  });
  return cycler;
}
