import { formatBytes } from "../../base/units.ts";
import type { BuildOptions } from "../../resources/app-source-spec.ts";
import { needsBuildKit } from "../../resources/recipe/buildkit-features.ts";
import {
  type ChosenDockerfile,
  chooseDockerfile,
} from "../../resources/recipe/choose-dockerfile.ts";
import { listSource } from "../../source-tree/list-source.ts";
import { packSource } from "../../source-tree/pack-source.ts";
import { TreeReader } from "../../source-tree/tree-reader.ts";
import type { SourceLimits } from "../git/port.ts";

export interface BuildContext {
  readonly tar: AsyncIterable<Buffer>;
  /** The path of the Dockerfile in the build context. */
  readonly dockerfile: string;
  /** True if the Dockerfile uses syntax that the classic builder does not support. */
  readonly needsBuildKit: boolean;
}

/** The Dockerfile of the source, a generated one, or that of the spec, which is added at `path`. */
type ContextDockerfile =
  | ChosenDockerfile
  | { readonly type: "inline"; readonly path: string; readonly text: string };

export interface BuildContextOptions {
  readonly build: BuildOptions;
  /** The path of the Dockerfile from the spec; if undefined, an existing or generated Dockerfile is used. */
  readonly dockerfile: string | undefined;
  readonly limits: SourceLimits;
  /** Checks the folder to build, whose real path it gets. Throws if the folder must not be built. */
  readonly checkDir?: (dir: string) => void;
  /** The current time, which becomes the modification time of the files in the image. */
  readonly nowMs: number;
  readonly log: (text: string) => void;
}

/**
 * Prepares the content to send to the engine: the folder without ignored files, and the existing or generated
 * Dockerfile, which is written to the log. Throws the errors of listSource and chooseDockerfile.
 */
export async function prepareBuildContext(
  root: string,
  options: BuildContextOptions,
  signal: AbortSignal,
): Promise<BuildContext> {
  const { build, dockerfile, limits, checkDir, nowMs, log } = options;
  const tree = await listSource(
    root,
    { ...limits, dockerfile, ...(checkDir ? { checkDir } : {}) },
    signal,
  );
  const reader = new TreeReader(tree);
  const chosen: ContextDockerfile =
    build.inline === undefined
      ? await chooseDockerfile(reader, {
          ...build,
          ...(dockerfile === undefined ? {} : { dockerfile }),
        })
      : { type: "inline", path: findFreePath(reader), text: build.inline };
  const rules =
    tree.ignoreFile === undefined ? "the standard ignore rules" : `the rules of ${tree.ignoreFile}`;
  log(`${tree.entries.length} entries, ${formatBytes(tree.bytes)}, after ${rules}`);
  if (tree.skipped.length > 0)
    log(`note: sockets, pipes and devices are not sent: ${tree.skipped.join(", ")}`);
  logDockerfile(chosen, log);
  const added = chosen.type === "found" ? undefined : new Map([[chosen.path, chosen.text]]);
  return {
    tar: packSource(tree, { mtimeMs: nowMs, ...(added ? { added } : {}) }, signal),
    dockerfile: chosen.path,
    needsBuildKit: needsBuildKit(chosen.text),
  };
}

/** Returns the path of a Dockerfile that is no file of the source, so that its instructions can copy every file. */
function findFreePath(reader: TreeReader): string {
  let path = "Dockerfile";
  while (reader.has(path)) path = `${path}.inline`;
  return path;
}

function logDockerfile(chosen: ContextDockerfile, log: (text: string) => void): void {
  if (chosen.type === "found") return log(`Dockerfile: ${chosen.path}`);
  if (chosen.type === "inline") log("the Dockerfile of the spec:");
  else
    log(`generated Dockerfile for ${chosen.description}, from ${chosen.decidingFiles.join(", ")}:`);
  for (const line of chosen.text.trimEnd().split("\n")) log(`  ${line}`);
}
