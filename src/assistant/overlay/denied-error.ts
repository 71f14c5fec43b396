/** Thrown to end the turn, because the user did not allow something that it needs. */
export class DeniedError extends Error {
  /**
   * `declined` means that the user declined, `expired` that the user did not answer in time. Any other value is the
   * code of a denied call.
   */
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.name = "DeniedError";
    this.code = code;
  }
}
