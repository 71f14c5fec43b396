/** The turn ends because the user did not allow what it needs. */
export class DeniedError extends Error {
  /** declined: the user declined. expired: there was no answer in time. Otherwise the code of a denied call. */
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.name = "DeniedError";
    this.code = code;
  }
}
