/** A set with reference counts: a member stays until every caller that added it has disposed of its handle. */
export class CountedSet {
  readonly #counts = new Map<string, number>();

  get members(): readonly string[] {
    return [...this.#counts.keys()];
  }

  has(member: string): boolean {
    return this.#counts.has(member);
  }

  add(member: string): Disposable {
    this.#counts.set(member, (this.#counts.get(member) ?? 0) + 1);
    return {
      [Symbol.dispose]: () => {
        const left = (this.#counts.get(member) ?? 1) - 1;
        if (left === 0) this.#counts.delete(member);
        else this.#counts.set(member, left);
      },
    };
  }
}
