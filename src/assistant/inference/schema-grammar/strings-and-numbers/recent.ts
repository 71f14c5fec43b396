/**
 * Results that are kept by name, the latest ones only: one schema asks the same several times, and many
 * requests have the same schema.
 */
export class Recent<Value> {
  private readonly kept = new Map<string, Value>();
  private readonly limit: number;

  constructor(limit: number) {
    this.limit = limit;
  }

  /** What is kept under the name, or else is made now; what throws is not kept. */
  get(name: string, make: () => Value): Value {
    const before = this.kept.get(name);
    if (before !== undefined) return before;
    const made = make();
    const [oldest] = this.kept.keys();
    if (this.kept.size >= this.limit && oldest !== undefined) this.kept.delete(oldest);
    this.kept.set(name, made);
    return made;
  }
}
