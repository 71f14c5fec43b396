import { BerthError, getErrorCode, isAbortError } from "../../../base/errors.ts";
import { formatBytes } from "../../../base/units.ts";

export function sourceUnreachableError(
  message: string,
  cause?: unknown,
  hint?: string,
): BerthError {
  return new BerthError("hub_unreachable", message, {
    hint:
      hint ??
      "check the network and the source; the downloaded bytes are kept, and the next attempt continues with them",
    cause,
  });
}

export function sourceDeniedError(
  name: string,
  host: string,
  status: number,
  hasToken: boolean,
): BerthError {
  return new BerthError(
    "hub_denied",
    hasToken
      ? `${host} denies the owner of this token access to ${name} (HTTP ${status})`
      : `${host} denies access to ${name} without a token (HTTP ${status})`,
    {
      hint: hasToken
        ? "accept the model's terms on the hub with that account, or use a token of another account"
        : "create a Secret with the key token and set credential to its name, or set HF_TOKEN",
    },
  );
}

export function sourceNotFoundError(name: string, host: string, status: number): BerthError {
  return new BerthError("hub_not_found", `${host} no longer has ${name} (HTTP ${status})`, {
    hint: "check if the file was moved or renamed, and correct source, revision or file",
  });
}

export function digestMismatchError(name: string, expected: string, got: string): BerthError {
  return new BerthError(
    "digest_mismatch",
    `${name} is not the expected file: its digest should be ${expected}, but is ${got}`,
    {
      hint: "try again; if the error persists, the file has changed at its source or is damaged there",
      details: { expected, got },
    },
  );
}

export function sizeMismatchError(
  name: string,
  expectedBytes: number,
  gotBytes: number,
): BerthError {
  return new BerthError(
    "digest_mismatch",
    `${name} is not the expected file: it should have ${expectedBytes} bytes, but its source reports ${gotBytes}`,
    {
      hint: "the file has changed at its source: resolve the model again",
      details: { expected: expectedBytes, got: gotBytes },
    },
  );
}

export function diskFullError(
  neededBytes: number,
  freeBytes: number,
  reserveBytes: number,
): BerthError {
  const missingBytes = neededBytes + reserveBytes - freeBytes;
  return new BerthError(
    "disk_full",
    `the download needs ${formatBytes(neededBytes)} more, and ${formatBytes(freeBytes)} are free on the disk of the models: ` +
      `${formatBytes(missingBytes)} are missing (${formatBytes(reserveBytes)} must stay free for Berth itself)`,
    {
      hint: "free some space, remove a model that is not needed, or choose a smaller quantization",
      details: { neededBytes, freeBytes, missingBytes },
    },
  );
}

/** Converts an error of the file system to one without paths; returns other errors unchanged. */
export function toDiskError(error: unknown): unknown {
  if (error instanceof BerthError || isAbortError(error)) return error;
  const code = getErrorCode(error);
  if (code === "ENOSPC" || code === "EDQUOT")
    return new BerthError(
      "disk_full",
      code === "EDQUOT"
        ? "the disk quota of Berth's user is used up in the folder of the models"
        : "the disk of the models became full",
      {
        hint: "free some space; the downloaded bytes are kept, and the next attempt continues with them",
        cause: error,
      },
    );
  if (code === undefined || !(error instanceof Error && "syscall" in error)) return error;
  return new BerthError("internal", `the folder of the models cannot be used (${code})`, {
    hint: "check that the data directory exists and belongs to Berth's user",
    cause: error,
  });
}
