/**
 * The limits of `Agent1` for the number of labels in a provenance chain and for the length of a label. `Agent1` refuses
 * a chain that exceeds them.
 */
const LABELS_MAX = 32;
const LABEL_BYTES_MAX = 128;

/**
 * The provenance of the calls of one turn, without duplicates. It only grows, because text that the model has seen
 * stays in its context.
 */
export class ProvenanceChain {
  readonly #labels: Set<string>;

  constructor(labels: readonly string[]) {
    this.#labels = new Set(labels);
  }

  get labels(): readonly string[] {
    return [...this.#labels];
  }

  /**
   * True if the number and the length of the labels are within the limits. A longer chain is not shortened, because
   * without one of its labels a tool call could look trusted.
   */
  get isWithinLimits(): boolean {
    return (
      this.#labels.size <= LABELS_MAX &&
      this.labels.every((label) => Buffer.byteLength(label) <= LABEL_BYTES_MAX)
    );
  }

  /** Adds an app whose output the model has seen. The label is untrusted, like that of a sandboxed caller. */
  addApp(appId: string): void {
    // An app id is ASCII and may be longer than a label, so the label is cut. The cut label still marks the chain as
    // untrusted.
    this.#labels.add(`app:${appId}`.slice(0, LABEL_BYTES_MAX));
  }
}
