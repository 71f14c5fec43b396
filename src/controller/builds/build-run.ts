import { mkdir, realpath, rm, stat } from "node:fs/promises";
import { join, sep } from "node:path";
import type { Clock } from "../../base/clock.ts";
import { BerthError } from "../../base/errors.ts";
import type { Logger } from "../../base/logger.ts";
import type { AppSource } from "../../resources/app-source-spec.ts";
import type { Store } from "../../store/store.ts";
import { redactUrl } from "../git/git-url.ts";
import type { GitClient, SourceLimits } from "../git/port.ts";
import type { BuildOutput, ImageRuntime } from "../runtime/port.ts";
import { listRegistryAuths } from "../secrets/registry-auth.ts";
import { createFolderCheck, digestFolder, missingArchiveError } from "./app-source-resolver.ts";
import type { ArchiveStore } from "./archive-store.ts";
import { prepareBuildContext } from "./build-context.ts";
import type { BuildJob } from "./build-job.ts";
import { extractArchive } from "./extract-archive.ts";
import { resolveGitRemote } from "./source-credential.ts";
import { shortRevision } from "./source-key.ts";

export interface BuildRunOptions {
  readonly store: Store;
  readonly runtime: ImageRuntime;
  readonly git: GitClient;
  readonly archives: ArchiveStore;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly dataDir: string;
  /** The memory limit of one build on the engine, in bytes. */
  readonly memoryBytes: number | undefined;
  readonly nanoCpus: number | undefined;
  /** The limits of one unpacked source. */
  readonly sourceLimits: SourceLimits;
}

/** Thrown if the folder was edited after its digest was computed. The build would then produce another revision. */
export class FolderChangedError extends BerthError {
  constructor(cause: string) {
    super("not_found", cause, { hint: "deploy again to build the current content of the folder" });
  }
}

/**
 * Builds the image of a source. Throws BerthErrors: those of the runtime, of the git client and of the archive,
 * `disk_full`, and errors in the source itself. The build's files are always removed at its end; after a crash, the
 * next start removes them.
 */
export async function runBuild(
  options: BuildRunOptions,
  job: BuildJob,
  onStep: (text: string) => void,
  signal: AbortSignal,
): Promise<{ readonly bytes: number }> {
  const workDir = join(options.dataDir, "builds", String(job.id));
  const { log } = job;
  const at = (step: string) => {
    onStep(step);
    log.write(`==> ${step}`);
  };
  log.write(`==> build ${job.id} of ${job.app}: ${describeSource(job)}`);
  try {
    await mkdir(workDir, { recursive: true, mode: 0o700 });
    at("fetching the source");
    const root = await fetchSource(options, job, join(workDir, "source"), signal);
    at("reading the source");
    const { build, source } = job.resource.spec;
    const context = await prepareBuildContext(
      root,
      {
        build: { ...build },
        dockerfile: getGitDockerfile(source) ?? build?.dockerfile,
        limits: options.sourceLimits,
        ...(source && "local" in source
          ? { checkDir: createFolderCheck(options.store, source.local) }
          : {}),
        nowMs: options.clock.now(),
        log: (text) => log.write(text),
      },
      signal,
    );
    at("sending the source to the engine");
    const made = await options.runtime.buildImage(
      context.tar,
      {
        tag: job.image,
        dockerfile: context.dockerfile,
        target: build?.target,
        platform: job.resource.spec.platform,
        args: build?.args ?? {},
        builder: context.needsBuildKit ? "buildkit" : "classic",
        auths: listRegistryAuths(options.store),
        memoryBytes: options.memoryBytes,
        nanoCpus: options.nanoCpus,
      },
      (output) => reportOutput(output, job, onStep),
      signal,
    );
    return { bytes: made.bytes };
  } finally {
    await rm(workDir, { recursive: true, force: true }).catch((error: unknown) =>
      // A failure to remove the files of a build is only logged, because the next start of Berth removes them.
      options.logger.warn({ build: job.id, err: error }, "the files of a build were not removed"),
    );
  }
}

function reportOutput(
  output: BuildOutput,
  { log }: BuildJob,
  onStep: (text: string) => void,
): void {
  if (output.type === "log") log.write(output.text);
  else {
    const step = `step ${output.number} of ${output.total}: ${output.text}`;
    onStep(step);
    log.write(step);
  }
}

/** Copies the source to `dir`, or uses a local folder in place. Returns the folder to build. */
async function fetchSource(
  options: BuildRunOptions,
  job: BuildJob,
  dir: string,
  signal: AbortSignal,
): Promise<string> {
  const { source } = job.resource.spec;
  const { log } = job;
  const { revision } = job.source;
  if (!source) throw new BerthError("invalid_spec", "the spec has no source");
  if ("local" in source) {
    const digest = await digestFolder(
      options.store,
      source.local,
      job.resource.spec,
      options.sourceLimits,
      signal,
    );
    if (digest === revision) return source.local;
    throw new FolderChangedError(
      `the folder has changed since revision ${shortRevision(revision)}: its revision is ${shortRevision(digest)} now`,
    );
  }
  if ("archive" in source) {
    if (!(await options.archives.has(revision))) throw missingArchiveError(revision);
    const file = options.archives.path(revision);
    const unpacked = await extractArchive(file, dir, options.sourceLimits, signal);
    log.write(`unpacked ${unpacked.files} files of the archive`);
    return unpacked.root;
  }
  await mkdir(dir, { mode: 0o700 });
  if ("empty" in source) return dir;
  const { ref, path = "" } = source.git;
  const remote = resolveGitRemote(options.store, source.git);
  const what = { commit: revision, ref };
  const checkout = await options.git.checkout(remote, what, dir, options.sourceLimits, signal);
  log.write(`checked out ${checkout.files} files of ${redactUrl(remote.url)} at ${revision}`);
  if (checkout.submodules.length > 0)
    log.write(
      `note: submodules are not fetched, and their folders stay empty: ${checkout.submodules.join(", ")}`,
    );
  return resolveFolderInside(dir, path, `${redactUrl(remote.url)} at ${shortRevision(revision)}`);
}

/**
 * Resolves a folder of a checkout. Throws if the result is outside of the checkout, because a link in the repository
 * may point anywhere.
 */
async function resolveFolderInside(dir: string, path: string, where: string): Promise<string> {
  const top = await realpath(dir);
  const found = await realpath(join(top, path)).catch(() => undefined);
  const isInside = found !== undefined && (found === top || found.startsWith(top + sep));
  if (isInside && (await stat(found)).isDirectory()) return found;
  throw new BerthError("not_found", `there is no folder "${path}" in ${where}`, {
    hint: "correct source.git.path",
  });
}

function getGitDockerfile(source: AppSource | undefined): string | undefined {
  return source && "git" in source ? source.git.dockerfile : undefined;
}

function describeSource({ source, resource }: BuildJob): string {
  const from = resource.spec.source;
  if (!from || "local" in from) return `the folder at ${shortRevision(source.revision)}`;
  if ("empty" in from) return "the Dockerfile of the spec";
  if ("archive" in from) return `the archive ${shortRevision(source.revision)}`;
  return `${redactUrl(from.git.url)} at ${source.revision}`;
}
