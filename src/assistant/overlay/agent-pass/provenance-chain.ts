/** As `Agent1` takes a chain; it refuses longer ones, and never cuts them. */
const LABELS_MAX = 32;
const LABEL_BYTES_MAX = 128;

/**
 * The provenance of the calls of one turn. It only ever grows: what has been in the model's view stays there.
 * Each label stands in it once.
 */
export class ProvenanceChain {
  readonly #labels: Set<string>;

  constructor(labels: readonly string[]) {
    this.#labels = new Set(labels);
  }

  get labels(): readonly string[] {
    return [...this.#labels];
  }

  /** One that does not fit is not made to: without the label that is left out the call could be trusted. */
  get isWithinLimits(): boolean {
    return (
      this.#labels.size <= LABELS_MAX &&
      this.labels.every((label) => Buffer.byteLength(label) <= LABEL_BYTES_MAX)
    );
  }

  /** The model has seen what this app says: a kind of label that nobody trusts, as of a sandboxed app that asks. */
  addApp(appId: string): void {
    // Ids are of ASCII, and may be longer than a label: who it was can still be told by most of it.
    this.#labels.add(`app:${appId}`.slice(0, LABEL_BYTES_MAX));
  }
}
