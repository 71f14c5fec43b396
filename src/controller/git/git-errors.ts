import { BerthError, getErrorMessage } from "../../base/errors.ts";
import { formatBytes } from "../../base/units.ts";

/**
 * Creates an error of `GitClient`. Both implementations of GitClient use the functions of this file, so that they
 * report the same errors. `displayUrl` contains no user and password.
 */
export function gitUnreachable(
  displayUrl: string,
  why: string,
  cause?: unknown,
  hint?: string,
): BerthError {
  return new BerthError(
    "git_unreachable",
    `the git server of ${displayUrl} cannot be reached: ${why}`,
    {
      hint: hint ?? "check the URL and the network; Berth will try again",
      cause,
    },
  );
}

export function gitDenied(displayUrl: string, why: string, hint: string): BerthError {
  return new BerthError("git_denied", `${displayUrl}: ${why}`, { hint });
}

export function repositoryNotFound(
  displayUrl: string,
  why = "there is no such repository",
): BerthError {
  return new BerthError("git_not_found", `${displayUrl}: ${why}`, {
    hint: "check the URL; many servers give the same answer for repositories that the credential may not read",
  });
}

export function refNotFound(displayUrl: string, ref: string | undefined): BerthError {
  if (ref === undefined)
    return new BerthError("git_not_found", `${displayUrl} has no commit yet, or no HEAD`, {
      hint: "push a commit, or name a branch in ref",
    });
  if (/^[0-9a-f]{4,39}$/i.test(ref))
    return new BerthError("git_not_found", `${displayUrl} has no branch and no tag ${ref}`, {
      hint: "to name a commit, write all of its 40 digits",
    });
  return new BerthError("git_not_found", `${displayUrl} has no branch and no tag ${ref}`, {
    hint: "push it, or correct ref",
  });
}

export function commitNotFound(displayUrl: string, commit: string): BerthError {
  return new BerthError("git_not_found", `${displayUrl} has no commit ${commit} any more`, {
    hint: "the commit was rewritten or never pushed; deploy again to build the current commit of the branch",
  });
}

export function repositoryTooLarge(what: "bytes" | "files" | "transfer", max: number): BerthError {
  const said = {
    bytes: `the files of the commit contain more than ${formatBytes(max)}`,
    files: `the commit has more than ${max} files and folders`,
    transfer: `the fetch transfers more than ${formatBytes(max)}`,
  }[what];
  return new BerthError("payload_too_large", `the repository is over the limit: ${said}`, {
    hint: "keep large files out of the repository, or raise the limit on uploads",
  });
}

/** Creates the error of a tree that git itself would refuse, or that the file system cannot represent. */
export function invalidTree(why: string): BerthError {
  return new BerthError("archive_invalid", `the commit cannot be checked out: ${why}`, {
    hint: "run `git fsck` in the repository, correct the commit and push it again",
  });
}

/**
 * Returns `disk_full` for a full local disk, which has nothing to do with the repository, and any other error
 * unchanged.
 */
export function translateDiskError(error: unknown): unknown {
  const code = getErrorCode(error);
  if (code === "ENOSPC" || code === "EDQUOT")
    return new BerthError("disk_full", "there is no space left to check the repository out", {
      hint: "free some space; Berth will try again",
      cause: error,
    });
  return error;
}

export function getErrorCode(error: unknown): string | undefined {
  if (typeof error !== "object" || error === null || !("code" in error)) return undefined;
  return typeof error.code === "string" ? error.code : undefined;
}

/** Describes a network error. The cause is in the inner error, because fetch wraps it. */
export function describeNetworkError(error: unknown): string {
  const inner = error instanceof Error && error.cause !== undefined ? error.cause : error;
  return getErrorCode(inner) ?? getErrorMessage(inner);
}
