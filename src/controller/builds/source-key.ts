import { hashJson } from "../../base/canonical-json.ts";
import type { AppSource, AppSpec } from "../../resources/app-spec.ts";
import { RECIPE_FORMAT } from "../../resources/recipe/recipe-format.ts";
import { DEPLOYED_AT_ANNOTATION, type Resource } from "../../resources/resource.ts";
import { redactUrl } from "../git/git-url.ts";

/** Of the digest in an image's tag: 64 bits, as in the hash of a version. */
const TAG_LENGTH = 16;

/**
 * What a pin was made for: where the source is, and when a person last asked for it to be looked at
 * anew. A credential or an interval does not change what a source stands for.
 */
export function pinKey(resource: Resource<"App">): string {
  const where = getSourceLocation(resource.spec.source);
  return hashJson([where, resource.metadata.annotations[DEPLOYED_AT_ANNOTATION] ?? null]);
}

/** True where both are in the same place, however they are reached and followed. */
export function isSameSource(a: AppSource | undefined, b: AppSource | undefined): boolean {
  return hashJson([getSourceLocation(a)]) === hashJson([getSourceLocation(b)]);
}

function getSourceLocation(source: AppSource | undefined) {
  return source && "git" in source
    ? { git: { ...source.git, credential: undefined, interval: undefined } }
    : source;
}

/** Where the image of a revision is: the same source with the same options is the same image, always. */
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
  ]);
  return `${imageRepository(instance, app)}:${digest.slice(0, TAG_LENGTH)}`;
}

export function imageRepository(instance: string, app: string): string {
  return `berth-${instance}/${app}`;
}

/** A source in the words of a build record, without the user and the password of a URL. */
export function sourceName(source: AppSource): string {
  if ("archive" in source) return "archive";
  if ("local" in source) return "folder";
  return redactUrl(source.git.url);
}

/** As git shows a commit. */
export function shortRevision(revision: string): string {
  return revision.slice(0, 12);
}

/** A full commit stands for itself for ever: there is nothing to follow. */
export function isCommit(ref: string | undefined): boolean {
  return ref !== undefined && /^[0-9a-f]{40}$/.test(ref);
}

/** `refs/heads/main` and `main` are one branch to people. */
export function isSameRef(a: string, b: string): boolean {
  return shortenRef(a) === shortenRef(b);
}

function shortenRef(ref: string): string {
  return ref.replace(/^refs\/(heads|tags)\//, "");
}
