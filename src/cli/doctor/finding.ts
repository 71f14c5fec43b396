import { getErrorCode } from "../../base/errors.ts";
import type { Environment } from "../../base/process-environment.ts";
import type { Config } from "../../config/config.ts";

/** The result of one check of `berth doctor`, and how to fix what is wrong. */
export interface DoctorFinding {
  readonly check: string;
  readonly state: "ok" | "warn" | "fail";
  readonly message: string;
  readonly fix?: string;
}

export interface DoctorContext {
  readonly config: Config;
  readonly environment: Environment;
  readonly nowMs: number;
}

export function createFinding(
  check: string,
  state: DoctorFinding["state"],
  message: string,
  fix?: string,
): DoctorFinding {
  return { check, state, message, ...(fix === undefined ? {} : { fix }) };
}

/** Returns the code of a failed system call, such as EACCES; "" for any other error. */
export function systemErrorCode(error: unknown): string {
  return getErrorCode(error) ?? "";
}
