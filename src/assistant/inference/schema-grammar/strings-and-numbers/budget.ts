/**
 * What one compilation may spend. Automata can grow exponentially with the pattern that they come from,
 * so each step of a construction is counted, and the count, unlike time, is the same on every machine.
 */
export class Budget {
  private left: number;

  /** A step is about a tenth of a microsecond, and up to three of them where memory has to be made. */
  constructor(steps = 600_000) {
    this.left = steps;
  }

  spend(steps: number): void {
    this.left -= steps;
    if (this.left < 0) throw new TooLargeError();
  }
}

/** An automaton grew past its bound. Callers turn it into `unsupported_schema` with keyword and pointer. */
export class TooLargeError extends Error {
  constructor() {
    super("needs more states than a grammar may have");
    this.name = new.target.name;
  }
}

/** The construct of a regular expression, or the format, that cannot be enforced. */
export class UnsupportedConstructError extends Error {
  constructor(message: string) {
    super(message);
    this.name = new.target.name;
  }
}
