import { createHash } from "node:crypto";
import { BerthError, isAbortError } from "../../base/errors.ts";
import { createTimeLimit } from "../../base/time-limit.ts";
import type { AppSpec } from "../../resources/app-spec.ts";
import type { Resource } from "../../resources/resource.ts";
import { digestSource } from "../../source-tree/digest-source.ts";
import { listSource } from "../../source-tree/list-source.ts";
import type { Store } from "../../store/store.ts";
import { redactUrl } from "../git/git-url.ts";
import type { GitClient, SourceLimits } from "../git/port.ts";
import type { ArchiveStore } from "./archive-store.ts";
import { resolveGitRemote } from "./source-credential.ts";

/**
 * A server that has not reported a commit within this time counts as unreachable. The git client has shorter limits for
 * single steps, such as the time without data.
 */
const RESOLVE_LIMIT_MS = 2 * 60_000;

/** The revision of a source without files: the sha256 of nothing. The Dockerfile is one of the build options. */
const EMPTY_REVISION = createHash("sha256").digest("hex");

export interface AppSourceResolverDependencies {
  readonly store: Store;
  readonly git: GitClient;
  readonly archives: ArchiveStore;
  readonly sourceLimits: SourceLimits;
}

/**
 * Returns the current commit, or the digest of the content, of an App's source. Throws BerthErrors: those of
 * GitClient, `archive_invalid` for an archive that is not stored, `not_found` and `invalid_spec` for a folder that
 * cannot be read.
 */
export async function resolveAppSource(
  { store, git, archives, sourceLimits }: AppSourceResolverDependencies,
  resource: Resource<"App">,
  signal: AbortSignal,
): Promise<string> {
  const { source } = resource.spec;
  if (!source) throw new BerthError("invalid_spec", "the spec has no source");
  if ("archive" in source) {
    if (!(await archives.has(source.archive))) throw missingArchiveError(source.archive);
    return source.archive;
  }
  if ("local" in source) {
    return digestFolder(store, source.local, resource.spec, sourceLimits, signal);
  }
  if ("empty" in source) return EMPTY_REVISION;
  const remote = resolveGitRemote(store, source.git);
  using bound = createTimeLimit(signal, RESOLVE_LIMIT_MS);
  try {
    return await git.resolve(remote, source.git.ref, bound.signal);
  } catch (error) {
    if (!isAbortError(error) || signal.aborted) throw error;
    throw new BerthError(
      "git_unreachable",
      `${redactUrl(remote.url)} did not answer within ${RESOLVE_LIMIT_MS / 1000} s`,
      { cause: error },
    );
  }
}

export function missingArchiveError(digest: string): BerthError {
  return new BerthError(
    "archive_invalid",
    `the archive ${digest.slice(0, 12)} is not stored on this server`,
    {
      hint: "upload the archive again, for example with berth deploy",
    },
  );
}

/**
 * Returns a function that throws `forbidden` if a folder of the machine must not be built now. The function gets the
 * folder's real path. Call it before each reading of the folder, because a link may lead to another folder than when
 * the spec was written, or when the source was resolved.
 */
export function createFolderCheck(
  store: Pick<Store, "findSourceProblem">,
  folder: string,
): (real: string) => void {
  return (real) => {
    const problem = store.findSourceProblem(real);
    if (problem === undefined) return;
    throw new BerthError("forbidden", `the folder ${folder} ${problem}`, {
      hint: "name another folder in source.local",
    });
  };
}

/**
 * Returns a digest of those files of a source folder that would be sent to the engine. A change of an ignored file
 * therefore makes no new revision. Throws the errors of `createFolderCheck`.
 */
export async function digestFolder(
  store: Pick<Store, "findSourceProblem">,
  folder: string,
  spec: AppSpec,
  limits: SourceLimits,
  signal: AbortSignal,
): Promise<string> {
  const checkDir = createFolderCheck(store, folder);
  checkDir(folder);
  const options = { ...limits, dockerfile: spec.build?.dockerfile, checkDir };
  return digestSource(await listSource(folder, options, signal), signal);
}
