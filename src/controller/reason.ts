/** The reason and the message of a condition. */
export interface Reason {
  /** The reason in CamelCase, for programs. */
  readonly reason: string;
  /** The situation in a sentence for the user, and what to do about it. */
  readonly message: string;
}
