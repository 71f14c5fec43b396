/** Ends the turn, because the user did not allow a call or a transfer of data that the turn needs. */
export class DeniedError extends Error {
  /**
   * The reason: `declined` if the user declined, `expired` if the user did not answer in time, otherwise the error code
   * of the call that was denied.
   */
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.name = "DeniedError";
    this.code = code;
  }
}
