import type { SourceLimits } from "../git/port.ts";

/**
 * The limits of one unpacked source: enough for a large repository with assets. Larger data belongs in a volume.
 */
export const SOURCE_LIMITS: SourceLimits = { bytesMax: 4 * 2 ** 30, filesMax: 200_000 };
