import type { Readable } from "node:stream";
import { BerthError } from "../../base/errors.ts";
import { listSource } from "../../base/source-tree/list.ts";
import { packSource } from "../../base/source-tree/pack.ts";
import type { BuildOptions } from "../../resources/app.ts";
import type { SourceLimits } from "../git/port.ts";

export interface BuildContext {
  readonly tar: Readable;
  /** In the context. */
  readonly dockerfile: string;
  readonly needsBuildKit: boolean;
}

export async function prepareContext(
  root: string,
  options: {
    readonly build: BuildOptions;
    /** The one that the spec names; undefined: what is found, or generated. */
    readonly dockerfile: string | undefined;
    readonly limits: SourceLimits;
    readonly nowMs: number;
    readonly log: (text: string) => void;
  },
  signal: AbortSignal,
): Promise<BuildContext> {
  const { limits, nowMs } = options;
  const dockerfile = options.dockerfile ?? "Dockerfile";
  const tree = await listSource(root, { ...limits, dockerfile }, signal);
  if (!tree.entries.some((entry) => entry.path === dockerfile))
    throw new BerthError("not_found", `there is no ${dockerfile}`);
  return { tar: packSource(tree, { mtimeMs: nowMs }, signal), dockerfile, needsBuildKit: false };
}
