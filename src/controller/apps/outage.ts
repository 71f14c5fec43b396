import { BerthError, type ErrorCode } from "../../base/errors.ts";
import type { Reason } from "../reason.ts";

const outageReasons: Partial<Record<ErrorCode, string>> = {
  disk_full: "DiskFull",
  forbidden: "MountRefused",
  registry_unreachable: "RegistryUnreachable",
  git_unreachable: "GitUnreachable",
};

/**
 * Converts an error after which Berth keeps trying to a reason for the status. Its message says that Berth keeps
 * trying.
 */
export function describeOutage({ code, message, hint }: BerthError): Reason {
  const parts = [message, hint, "Berth keeps trying"].filter(Boolean);
  return { reason: outageReasons[code] ?? "EngineError", message: parts.join("; ") };
}

/**
 * Returns the Stalled reason for a reconcile run that ended because of a full disk or a refused mount; undefined for
 * other errors.
 */
export function describeBlockedRun(error: unknown): Reason | undefined {
  const isBlocked =
    error instanceof BerthError && (error.code === "disk_full" || error.code === "forbidden");
  return isBlocked ? describeOutage(error) : undefined;
}
