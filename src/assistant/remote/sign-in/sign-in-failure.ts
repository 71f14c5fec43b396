import type { LoginDetail } from "../port.ts";

export type FailedLoginDetail = Exclude<LoginDetail, "ok">;

/** The reason of a failed sign-in. `reason` is a code for the log; it contains nothing from the callback. */
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

/** Returns an error code from outside if it has the form of OAuth's codes and is safe for a log, else a fixed text. */
export function toLoggableCode(text: unknown): string {
  return typeof text === "string" && /^[A-Za-z_]{1,64}$/.test(text) ? text : "unknown";
}
