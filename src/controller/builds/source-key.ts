import { hashJson } from "../../base/canonical-json.ts";
import type { AppSource } from "../../resources/app-source-spec.ts";
import type { AppSpec } from "../../resources/app-spec.ts";
import { RECIPE_FORMAT } from "../../resources/recipe/recipe-format.ts";
import { DEPLOYED_AT_ANNOTATION, type Resource } from "../../resources/resource.ts";
import { imageRepository } from "../engine-names.ts";
import { redactUrl } from "../git/git-url.ts";

/** The length of the digest in an image's tag: 64 bits, as in the hash of a version. */
const TAG_LENGTH = 16;

/**
 * Returns the key of the pin that fixes an App's source to a source revision: a digest of the location of the source,
 * and of the time when a user last requested to resolve the source again. The source's credential and poll interval do
 * not affect its revision, so they do not affect the key.
 */
export function pinKey(resource: Resource<"App">): string {
  const where = getSourceLocation(resource.spec.source);
  return hashJson([where, resource.metadata.annotations[DEPLOYED_AT_ANNOTATION] ?? null]);
}

/** True if both sources have the same location, regardless of credential and interval. */
export function isSameSource(a: AppSource | undefined, b: AppSource | undefined): boolean {
  return hashJson([getSourceLocation(a)]) === hashJson([getSourceLocation(b)]);
}

function getSourceLocation(source: AppSource | undefined) {
  return source && "git" in source
    ? { git: { ...source.git, credential: undefined, interval: undefined } }
    : source;
}

/**
 * Returns the reference of a revision's image. The same revision with the same build options always gets the same
 * reference.
 */
export function getImageReference(
  instance: string,
  app: string,
  spec: AppSpec,
  revision: string,
): string {
  const git = spec.source && "git" in spec.source ? spec.source.git : undefined;
  const digest = hashJson([
    revision,
    git?.path ?? null,
    git?.dockerfile ?? null,
    spec.build ?? null,
    RECIPE_FORMAT,
    ...(spec.platform === undefined ? [] : [spec.platform]),
  ]);
  return `${imageRepository(instance, app)}:${digest.slice(0, TAG_LENGTH)}`;
}

/** Names a source in a build record, without the user and the password of a URL. */
export function sourceName(source: AppSource): string {
  if ("archive" in source) return "archive";
  if ("local" in source) return "folder";
  if ("empty" in source) return "Dockerfile";
  return redactUrl(source.git.url);
}

/** Shortens a commit hash as git does. */
export function shortRevision(revision: string): string {
  return revision.slice(0, 12);
}

/** Returns true for a full commit hash. Such a ref never changes, so its source need not be resolved again. */
export function isCommit(ref: string | undefined): boolean {
  return ref !== undefined && /^[0-9a-f]{40}$/.test(ref);
}

/** Returns true if both names mean the same ref, such as `refs/heads/main` and `main`. */
export function isSameRef(a: string, b: string): boolean {
  return shortenRef(a) === shortenRef(b);
}

function shortenRef(ref: string): string {
  return ref.replace(/^refs\/(heads|tags)\//, "");
}
