import { NotFoundError } from "../../base/errors.ts";
import type { LogLine } from "../runtime/port.ts";

/**
 * Ignores the error for a container that was removed after it was listed, because such a container has no more lines.
 */
export async function* ignoreRemovedContainer(
  lines: AsyncIterable<LogLine>,
): AsyncIterable<LogLine> {
  try {
    yield* lines;
  } catch (error) {
    if (!(error instanceof NotFoundError)) throw error;
  }
}
