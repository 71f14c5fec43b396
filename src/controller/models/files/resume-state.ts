import type { PartialOrigin } from "./partial-file.ts";
import type { ByteRanges } from "./ranges.ts";

/** The facts of the file that an earlier attempt recorded and that are still valid. */
export interface ResumeState {
  readonly sizeBytes: number | null;
  readonly validator: string | null;
}

/**
 * Returns the state from which a download resumes; undefined if the bytes of an earlier attempt may belong to another
 * file. If the digest of the file is known, the verification at the end detects bytes of another file. If not, only the
 * same entity tag for the same URL proves that the file is the same. Pure.
 */
export function resolveResumeState(
  found: PartialOrigin,
  written: ByteRanges,
  wanted: {
    readonly source: string;
    readonly hasDigest: boolean;
    readonly sizeBytes: number | null;
  },
): ResumeState | undefined {
  const isSameSource = found.source === wanted.source;
  const isCertain = wanted.hasDigest || (isSameSource && found.validator !== null);
  const sizeBytes = wanted.sizeBytes ?? found.sizeBytes;
  const isOtherSize = found.sizeBytes !== null && found.sizeBytes !== sizeBytes;
  const writtenEnd = written.at(-1)?.end ?? 0;
  if (!isCertain || (isOtherSize && writtenEnd > 0) || writtenEnd > (sizeBytes ?? 0))
    return undefined;
  return { sizeBytes, validator: isSameSource ? found.validator : null };
}
