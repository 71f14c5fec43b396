import type { LoginDetail } from "../port.ts";

export type FailedLoginDetail = Exclude<LoginDetail, "ok">;

/** The error of a failed sign-in. `reason` is a code for the log; it contains no data from the callback. */
export class SignInFailure extends Error {
  readonly detail: FailedLoginDetail;
  readonly reason: string;

  constructor(detail: FailedLoginDetail, reason: string) {
    super(`${detail}: ${reason}`);
    this.name = new.target.name;
    this.detail = detail;
    this.reason = reason;
  }
}

/**
 * Returns an error code of the provider if it has the form of OAuth's codes, which is safe for a log. Otherwise returns
 * a fixed text.
 */
export function toLoggableCode(text: unknown): string {
  return typeof text === "string" && /^[A-Za-z_]{1,64}$/.test(text) ? text : "unknown";
}
