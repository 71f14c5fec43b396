import { BerthError, type ErrorCode } from "../../base/errors.ts";
import type { SecretMask } from "../secrets/app-secret-mask.ts";

/** Why a source or a build came to nothing, as the Built condition says it. */
export interface BuildFailure {
  /** CamelCase, for programs. */
  readonly reason: string;
  readonly message: string;
  /** Trying the same again cannot help. */
  readonly terminal: boolean;
}

type FailureClass = readonly [reason: string, terminal: boolean];

/** What may pass by itself is tried again with back-off; the rest waits for another source or credential. */
const transientReasons: Partial<Record<ErrorCode, string>> = {
  engine_unreachable: "EngineUnreachable",
  timeout: "EngineUnreachable",
  engine_error: "EngineError",
  disk_full: "DiskFull",
  git_unreachable: "GitUnreachable",
  // A file was written to while it was read.
  conflict: "SourceChanged",
};

const terminalSourceReasons: Partial<Record<ErrorCode, string>> = {
  git_denied: "GitDenied",
  git_not_found: "GitNotFound",
  not_found: "SourceInvalid",
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
  archive_invalid: "SourceInvalid",
  payload_too_large: "SourceInvalid",
  invalid_spec: "SourceInvalid",
  invalid_request: "SourceInvalid",
};

/** What a look at a source failed with. */
export function describeSourceFailure(error: unknown, mask: SecretMask): BuildFailure {
  return describeFailure(error, terminalSourceReasons, mask);
}

/** What the making of an image failed with. */
export function describeBuildFailure(error: unknown, mask: SecretMask): BuildFailure {
  return describeFailure(error, terminalBuildReasons, mask);
}

/** A mistake of Berth's own, whose message may hold anything: it goes into the log of the server only. */
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
      message: "Berth made a mistake; its own log says which. It tries again",
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

function isDiskFull(error: unknown): boolean {
  return (
    error instanceof Error &&
    "code" in error &&
    (error.code === "ENOSPC" || error.code === "EDQUOT")
  );
}
