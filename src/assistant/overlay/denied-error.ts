/** A turn ends because a person did not allow what it needs. */
export class DeniedError extends Error {
  /** declined: they said no. expired: nobody answered in time. Else the code of a denied call. */
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.name = "DeniedError";
    this.code = code;
  }
}
