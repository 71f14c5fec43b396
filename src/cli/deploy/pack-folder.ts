import { formatBytes } from "../../base/units.ts";
import { listSource, type SourceTree } from "../../source-tree/list-source.ts";
import { packSource } from "../../source-tree/pack-source.ts";
import type { Cli } from "../cli.ts";
import { ProgressLines } from "../output/progress-lines.ts";

/** Far beyond what a server takes; it says what its own limits are. */
const LIMITS = { bytesMax: 16 * 1024 ** 3, filesMax: 1_000_000 } as const;
/** A terminal needs no more than ten lines a second, and a test of many MiB no more than some. */
const STEP_FRACTION = 0.01;

/** What of a folder is sent to be built. Throws as `listSource` does. */
export async function listFolder(
  dir: string,
  dockerfile: string | undefined,
  signal: AbortSignal,
): Promise<SourceTree> {
  return listSource(dir, { ...LIMITS, dockerfile, outsideLinks: "refuse" }, signal);
}

/**
 * The folder as a gzipped archive that is made as it is read, with a bar on a terminal. `shown` is
 * what the bar says. Throws as `packSource` does.
 */
export async function* packFolder(
  cli: Cli,
  tree: SourceTree,
  label: string,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const lines = new ProgressLines((text) => cli.io.writeError(text), cli.errorColours.dim);
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
