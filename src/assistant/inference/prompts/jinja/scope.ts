import type { Value } from "./values.ts";

/** The variables of a block. A block reads the variables of the blocks around it, and sets only its own. */
export class Scope {
  readonly #parent: Scope | undefined;
  readonly #variables = new Map<string, Value>();

  constructor(parent?: Scope) {
    this.#parent = parent;
  }

  /** The scope of the whole template, whose parent has the variables of the request. */
  get ofTemplate(): Scope {
    const parent = this.#parent;
    return parent === undefined || parent.#parent === undefined ? this : parent.ofTemplate;
  }

  get(name: string): Value {
    return this.#variables.has(name) ? this.#variables.get(name) : this.#parent?.get(name);
  }

  set(name: string, value: Value): void {
    this.#variables.set(name, value);
  }
}
