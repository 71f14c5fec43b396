import { formatBytes } from "../../base/units.ts";
import { listSource, type SourceTree } from "../../source-tree/list-source.ts";
import { packSource } from "../../source-tree/pack-source.ts";
import type { Cli } from "../cli.ts";
import { ProgressLines } from "../output/progress-lines.ts";

/**
 * The limits of an uploaded folder. They are far above the limits of any server, so that the server itself
 * reports a folder that is too large for it.
 */
const LIMITS = { bytesMax: 16 * 1024 ** 3, filesMax: 1_000_000 } as const;
/** The progress is redrawn after each further percent. */
const STEP_FRACTION = 0.01;

/** Lists those files of a folder that are uploaded for a build. Throws the errors of `listSource`. */
export async function listFolder(
  dir: string,
  dockerfile: string | undefined,
  signal: AbortSignal,
): Promise<SourceTree> {
  return listSource(dir, { ...LIMITS, dockerfile, outsideLinks: "refuse" }, signal);
}

/**
 * Yields the folder as a gzipped archive, which is created while the caller reads it. On a terminal it shows a progress
 * bar with `label`. Throws the errors of `packSource`.
 */
export async function* packFolder(
  cli: Cli,
  tree: SourceTree,
  label: string,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const lines = new ProgressLines({
    write: (text) => cli.io.writeError(text),
    dim: cli.errorColours.dim,
    columns: () => cli.io.errorColumns,
  });
  let reportedFraction = -1;
  const reportProgress = (bytes: number) => {
    if (!cli.io.errorIsTerminal || tree.bytes === 0) return;
    const fraction = bytes / tree.bytes;
    if (bytes < tree.bytes && fraction - reportedFraction < STEP_FRACTION) return;
    reportedFraction = fraction;
    lines.show(`${label} (${formatBytes(bytes)} of ${formatBytes(tree.bytes)})`);
  };
  try {
    for await (const chunk of packSource(tree, { gzip: true, onBytes: reportProgress }, signal)) {
      const bytes: unknown = chunk;
      if (bytes instanceof Uint8Array) yield bytes;
    }
  } finally {
    lines.end();
  }
}
