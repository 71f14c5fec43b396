import type { LoginDetail } from "../port.ts";

export type FailedLoginDetail = Exclude<LoginDetail, "ok">;

/** Why a sign-in came to nothing. `reason` is a code for the log; nothing in it comes from the callback. */
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

/** What others call a fault, fit for a log: a code as OAuth has them, or nothing. */
export function toLoggableCode(text: unknown): string {
  return typeof text === "string" && /^[A-Za-z_]{1,64}$/.test(text) ? text : "unknown";
}
