import type { PartialOrigin } from "./partial-file.ts";
import type { ByteRanges } from "./ranges.ts";

/** What an earlier try knew of the file, as far as it still holds. */
export interface ResumeState {
  readonly sizeBytes: number | null;
  readonly validator: string | null;
}

/**
 * Whether what an earlier try has left is certain to be of the same file; undefined: it is of no use. With a digest
 * the end will tell; without one only the entity tag can, and only for the same URL. Pure.
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
