import { BerthError, isAbort } from "../../base/errors.ts";
import { timeLimit } from "../../base/time-limit.ts";
import type { AppSpec } from "../../resources/app.ts";
import type { Resource } from "../../resources/resource.ts";
import { digestSource } from "../../source-tree/digest.ts";
import { listSource } from "../../source-tree/list.ts";
import type { Store } from "../../store/store.ts";
import type { GitClient, SourceLimits } from "../git/port.ts";
import { shownUrl } from "../git/url.ts";
import type { ArchiveStore } from "./archive-store.ts";
import { remoteOf } from "./source-credential.ts";

/** A server that has not named a commit by then is as good as away; the client has shorter limits of its own. */
const RESOLVE_LIMIT_MS = 2 * 60_000;

export interface ResolverOptions {
  readonly store: Store;
  readonly git: GitClient;
  readonly archives: ArchiveStore;
  readonly sourceLimits: SourceLimits;
}

/**
 * The commit, or the digest of the content, that an App's source stands for at this moment. Throws
 * BerthErrors: those of GitClient, `archive_invalid` for an archive that is not kept (any more),
 * `not_found` and `invalid_spec` for a folder that cannot be read.
 */
export async function resolveSource(
  { store, git, archives, sourceLimits }: ResolverOptions,
  resource: Resource<"App">,
  signal: AbortSignal,
): Promise<string> {
  const { source } = resource.spec;
  if (!source) throw new BerthError("invalid_spec", "the spec has no source");
  if ("archive" in source) {
    if (!(await archives.has(source.archive))) throw archiveGone(source.archive);
    return source.archive;
  }
  if ("local" in source) return digestFolder(source.local, resource.spec, sourceLimits, signal);
  const remote = remoteOf(store, source.git);
  using bound = timeLimit(signal, RESOLVE_LIMIT_MS);
  try {
    return await git.resolve(remote, source.git.ref, bound.signal);
  } catch (error) {
    if (!isAbort(error) || signal.aborted) throw error;
    throw new BerthError(
      "git_unreachable",
      `${shownUrl(remote.url)} did not answer within ${RESOLVE_LIMIT_MS / 1000} s`,
      { cause: error },
    );
  }
}

export function archiveGone(digest: string): BerthError {
  return new BerthError("archive_invalid", `the archive ${digest.slice(0, 12)} is not kept here`, {
    hint: "upload it again, as berth deploy does",
  });
}

/** Of what would be sent to the engine: a change of what is left out is no other revision. */
export async function digestFolder(
  folder: string,
  spec: AppSpec,
  limits: SourceLimits,
  signal: AbortSignal,
): Promise<string> {
  const options = { ...limits, dockerfile: spec.build?.dockerfile };
  return digestSource(await listSource(folder, options, signal), signal);
}
