/** The reason and the message of a condition. */
export interface Reason {
  /** CamelCase, for programs. */
  readonly reason: string;
  /** For the user: the situation, and what to do about it. */
  readonly message: string;
}
