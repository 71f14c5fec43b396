import { type Arguments, Attributes, equals, type Value } from "./values.ts";

/** Thrown by `{% break %}` and `{% continue %}`. */
export class LoopControl extends Error {
  readonly kind: "Break" | "Continue";

  constructor(kind: "Break" | "Continue") {
    super(`{% ${kind.toLowerCase()} %} is outside of a loop`);
    this.kind = kind;
  }
}

/** Calls `run` for each item, with the variable `loop`, until the items end or `run` throws a break. */
export function runLoop(
  items: readonly Value[],
  run: (item: Value, loop: Attributes) => void,
): void {
  let last: Value[] | undefined;
  const hasChanged = ({ positional }: Arguments): boolean => {
    const before = last;
    last = [...positional];
    return before === undefined || !equals(before, last);
  };
  for (const [index, item] of items.entries()) {
    const loop = new Attributes([
      ["index", index + 1],
      ["index0", index],
      ["revindex", items.length - index],
      ["revindex0", items.length - index - 1],
      ["first", index === 0],
      ["last", index === items.length - 1],
      ["length", items.length],
      ["previtem", items[index - 1]],
      ["nextitem", items[index + 1]],
      ["cycle", ({ positional }) => positional[index % positional.length]],
      ["changed", hasChanged],
    ]);
    try {
      run(item, loop);
    } catch (error) {
      if (!(error instanceof LoopControl)) throw error;
      if (error.kind === "Break") break;
    }
  }
}
