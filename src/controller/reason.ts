/** Why something is as it is, for a condition. */
export interface Reason {
  /** CamelCase, for programs. */
  readonly reason: string;
  /** For people: what is so, and what to do about it. */
  readonly message: string;
}
