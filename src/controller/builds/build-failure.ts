import { BerthError, type ErrorCode, isDiskFull } from "../../base/errors.ts";
import type { SecretMask } from "../secrets/app-secret-mask.ts";

/** The reason of the Built condition for a failed source or build. */
export interface BuildFailure {
  /** The reason in CamelCase, for programs. */
  readonly reason: string;
  readonly message: string;
  /** True if a retry of the same revision cannot succeed. */
  readonly terminal: boolean;
}

type FailureClass = readonly [reason: string, terminal: boolean];

/**
 * The error codes of failures that Berth retries with back-off. After any other failure, Berth waits until the user
 * changes the source or the credential.
 */
const transientReasons: Partial<Record<ErrorCode, string>> = {
  engine_unreachable: "EngineUnreachable",
  engine_leased: "EngineLeased",
  timeout: "EngineUnreachable",
  engine_error: "EngineError",
  disk_full: "DiskFull",
  git_unreachable: "GitUnreachable",
  registry_unreachable: "RegistryUnreachable",
  // A file of the source changed while it was read.
  conflict: "SourceChanged",
};

const terminalSourceReasons: Partial<Record<ErrorCode, string>> = {
  git_denied: "GitDenied",
  git_not_found: "GitNotFound",
  not_found: "SourceInvalid",
  forbidden: "SourceInvalid",
  archive_invalid: "SourceInvalid",
  payload_too_large: "SourceInvalid",
  invalid_spec: "SourceInvalid",
  invalid_request: "SourceInvalid",
};

const terminalBuildReasons: Partial<Record<ErrorCode, string>> = {
  build_failed: "BuildFailed",
  image_not_found: "BuildFailed",
  registry_denied: "BuildFailed",
  git_denied: "SourceInvalid",
  git_not_found: "SourceInvalid",
  not_found: "SourceInvalid",
  forbidden: "SourceInvalid",
  archive_invalid: "SourceInvalid",
  payload_too_large: "SourceInvalid",
  invalid_spec: "SourceInvalid",
  invalid_request: "SourceInvalid",
};

export function describeSourceFailure(error: unknown, mask: SecretMask): BuildFailure {
  return describeFailure(error, terminalSourceReasons, mask);
}

export function describeBuildFailure(error: unknown, mask: SecretMask): BuildFailure {
  return describeFailure(error, terminalBuildReasons, mask);
}

/** True for an internal error. Its message may contain anything, so it is written only to the server's log. */
export function isUnexpected(error: unknown): boolean {
  return !(error instanceof BerthError) && !isDiskFull(error);
}

function describeFailure(
  error: unknown,
  terminal: Partial<Record<ErrorCode, string>>,
  mask: SecretMask,
): BuildFailure {
  if (isDiskFull(error)) {
    return {
      reason: "DiskFull",
      message: "the disk ran full while the source was unpacked; free some space",
      terminal: false,
    };
  }
  if (!(error instanceof BerthError)) {
    return {
      reason: "InternalError",
      message: "an internal error; see Berth's log. Berth will retry",
      terminal: false,
    };
  }
  const [reason, isTerminal] = classifyFailure(error.code, terminal);
  const hint =
    error.hint === undefined ? "" : `${error.message.includes("\n") ? "\n" : "; "}${error.hint}`;
  return { reason, message: mask(`${error.message}${hint}`), terminal: isTerminal };
}

function classifyFailure(
  code: ErrorCode,
  terminal: Partial<Record<ErrorCode, string>>,
): FailureClass {
  const final = terminal[code];
  return final === undefined ? [transientReasons[code] ?? "EngineError", false] : [final, true];
}
