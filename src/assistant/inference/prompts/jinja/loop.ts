import { type Arguments, Attributes, equals, type Value } from "./values.ts";

/** Thrown by `{% break %}` and `{% continue %}`. */
export class LoopControl extends Error {
  readonly kind: "Break" | "Continue";

  constructor(kind: "Break" | "Continue") {
    super(`{% ${kind.toLowerCase()} %} is outside of a loop`);
    this.kind = kind;
  }
}

/** Renders a recursive loop with other items. */
type RenderLoop = (items: Value, depth: number) => string;

/**
 * The variable `loop`. It reads the items one by one, because the condition of a loop may depend on what the iterations
 * before have set.
 */
export class Loop extends Attributes {
  readonly #items: Iterator<Value>;
  readonly #depth: number;
  readonly #render: RenderLoop | undefined;
  /** The items that were read before their iteration. */
  readonly #ahead: Value[] = [];
  #index = -1;
  #previous: Value;
  #current: Value;
  #length: number | undefined;
  #changed: Value[] | undefined;

  /** `depth` is 0 for a loop that is not within itself; only a recursive loop has `render`. */
  constructor(items: Iterator<Value>, depth: number, render: RenderLoop | undefined) {
    super();
    this.#items = items;
    this.#depth = depth;
    this.#render = render;
  }

  /** Begins the next iteration. Returns false if there are no more items. */
  advance(): boolean {
    if (!this.#hasNext()) return false;
    this.#previous = this.#current;
    this.#current = this.#ahead.shift();
    this.#index += 1;
    return true;
  }

  /** The item of this iteration. */
  get item(): Value {
    return this.#current;
  }

  /** Implements `loop(items)`. */
  call({ positional: [items] }: Arguments): string {
    if (this.#render === undefined) throw new TypeError("a loop that is called must be recursive");
    return this.#render(items, this.#depth + 1);
  }

  override get(name: string): Value {
    switch (name) {
      case "index":
        return this.#index + 1;
      case "index0":
        return this.#index;
      case "revindex":
        return this.#countItems() - this.#index;
      case "revindex0":
        return this.#countItems() - this.#index - 1;
      case "first":
        return this.#index === 0;
      case "last":
        return !this.#hasNext();
      case "length":
        return this.#countItems();
      case "previtem":
        return this.#previous;
      case "nextitem":
        return this.#hasNext() ? this.#ahead[0] : undefined;
      case "depth":
        return this.#depth + 1;
      case "depth0":
        return this.#depth;
      case "cycle":
        return ({ positional }) => positional[this.#index % positional.length];
      case "changed":
        return ({ positional }) => this.#hasChanged([...positional]);
      default:
        return undefined;
    }
  }

  #hasNext(): boolean {
    if (this.#ahead.length > 0) return true;
    const { done, value } = this.#items.next();
    if (done === true) return false;
    this.#ahead.push(value);
    return true;
  }

  #countItems(): number {
    if (this.#length === undefined) {
      for (let next = this.#items.next(); next.done !== true; next = this.#items.next())
        this.#ahead.push(next.value);
      this.#length = this.#index + 1 + this.#ahead.length;
    }
    return this.#length;
  }

  #hasChanged(values: Value[]): boolean {
    const isSame = this.#changed !== undefined && equals(this.#changed, values);
    this.#changed = values;
    return !isSame;
  }
}
