import { NotFoundError } from "../../base/errors.ts";
import type { LogLine } from "../runtime/port.ts";

/** A container that was removed since it was listed has no more lines, and is nobody's failure. */
export async function* ignoreRemovedContainer(
  lines: AsyncIterable<LogLine>,
): AsyncIterable<LogLine> {
  try {
    yield* lines;
  } catch (error) {
    if (!(error instanceof NotFoundError)) throw error;
  }
}
