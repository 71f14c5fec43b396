import { BerthError, isAbortError } from "../../../base/errors.ts";
import { formatBytes } from "../../../base/units.ts";

export function sourceUnreachableError(
  message: string,
  cause?: unknown,
  hint?: string,
): BerthError {
  return new BerthError("hub_unreachable", message, {
    hint:
      hint ??
      "check the network and the source; what has come is kept, and the next try goes on from there",
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
      ? `${host} does not give ${name} to the owner of this token (HTTP ${status})`
      : `${host} gives ${name} to nobody without a token (HTTP ${status})`,
    {
      hint: hasToken
        ? "accept the model's terms on the hub with that account, or use the token of another"
        : "make a Secret with the key token, and name it in credential; or set HF_TOKEN",
    },
  );
}

export function sourceNotFoundError(name: string, host: string, status: number): BerthError {
  return new BerthError("hub_not_found", `${host} has no ${name} any more (HTTP ${status})`, {
    hint: "look whether the file was moved or renamed, and correct source, revision or file",
  });
}

export function digestMismatchError(name: string, expected: string, got: string): BerthError {
  return new BerthError(
    "digest_mismatch",
    `${name} is not what was promised: its digest should be ${expected}, and is ${got}`,
    {
      hint: "try again; where it comes again, the file at its source has changed or is damaged",
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
    `${name} is not what was promised: it should have ${expectedBytes} bytes, and its source says that it has ${gotBytes}`,
    {
      hint: "the file at its source has changed: have the model looked up again",
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
    `what is to be downloaded takes ${formatBytes(neededBytes)} more, and ${formatBytes(freeBytes)} are free where models are kept: ` +
      `${formatBytes(missingBytes)} are missing (${formatBytes(reserveBytes)} stay free for Berth itself)`,
    {
      hint: "free some space, remove a model that is not needed, or choose a smaller quantization",
      details: { neededBytes, freeBytes, missingBytes },
    },
  );
}

/** An error of the file system as callers may see it: no path. What others threw is given back as it is. */
export function toDiskError(error: unknown): unknown {
  if (error instanceof BerthError || isAbortError(error)) return error;
  const code = getSystemCode(error);
  if (code === "ENOSPC" || code === "EDQUOT")
    return new BerthError(
      "disk_full",
      code === "EDQUOT"
        ? "the quota of Berth's user is used up where models are kept"
        : "the disk became full where models are kept",
      {
        hint: "free some space; what has come is kept, and the next try goes on from there",
        cause: error,
      },
    );
  if (code === undefined || !(error instanceof Error && "syscall" in error)) return error;
  return new BerthError("internal", `the folder of the models cannot be used (${code})`, {
    hint: "check that the data directory is there and belongs to Berth's user",
    cause: error,
  });
}

export function getSystemCode(error: unknown): string | undefined {
  return error instanceof Error && "code" in error && typeof error.code === "string"
    ? error.code
    : undefined;
}
