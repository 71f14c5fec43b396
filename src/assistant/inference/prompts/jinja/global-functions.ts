import { toText } from "./print-value.ts";
import { type Arguments, Attributes, iterate, NumberRange, type Value } from "./values.ts";

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
  [
    "namespace",
    (args) => new Attributes(listMembers(args).map(([key, value]) => [toText(key), value])),
  ],
  ["dict", (args) => new Map(listMembers(args))],
  ["joiner", createJoiner],
  ["cycler", createCycler],
]);

function listRange(args: Arguments): Value {
  const first = args.getInteger(0, "start", 0);
  const [from, to] =
    args.positional.length < 2 ? [0, first] : [first, args.getInteger(1, "stop", 0)];
  const step = args.getInteger(2, "step", 1);
  if (step === 0) throw new RangeError("the step of range() is zero");
  if ((to - from) / step > RANGE_MAX) throw new Error(`range() has more than ${RANGE_MAX} numbers`);
  return NumberRange.create(from, to, step);
}

function listMembers({ positional: [source], named }: Arguments): readonly [Value, Value][] {
  const pairs = source instanceof Map ? [...source] : iterate(source).map((pair) => iterate(pair));
  return [...pairs.map(([key, value]): [Value, Value] => [key, value]), ...named];
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
    cycler.set("current", positional[index]);
  };
  cycler.set("next", () => {
    const value = positional[index];
    moveTo(index + 1);
    return value;
  });
  cycler.set("reset", () => {
    moveTo(0);
    return null;
  });
  return cycler;
}
