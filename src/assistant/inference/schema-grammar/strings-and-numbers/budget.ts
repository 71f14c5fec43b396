/**
 * The number of steps that one compilation may take. Automata can grow exponentially with their pattern, so
 * each step of a construction is counted; unlike time, the count is the same on every machine.
 */
export class Budget {
  private left: number;

  /**
   * `steps` is the limit of construction steps. A step takes about 0.1 microseconds, or up to 0.3 if it allocates
   * memory.
   */
  constructor(steps = 600_000) {
    this.left = steps;
  }

  spend(steps: number): void {
    this.left -= steps;
    if (this.left < 0) throw new TooLargeError();
  }
}

/** Thrown when an automaton becomes too large. Callers turn it into `unsupported_schema` with keyword and pointer. */
export class TooLargeError extends Error {
  constructor() {
    super("needs more states than a grammar may have");
    this.name = new.target.name;
  }
}

/** Thrown for a construct of a regular expression, or a format, that cannot be enforced. */
export class UnsupportedConstructError extends Error {
  constructor(message: string) {
    super(message);
    this.name = new.target.name;
  }
}
