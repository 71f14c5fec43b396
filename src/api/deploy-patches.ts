import { timestamp } from "../base/clock.ts";
import {
  DEPLOYED_AT_ANNOTATION,
  IMAGE_HOLD_ANNOTATION,
  RETRIED_AT_ANNOTATION,
  SOURCE_REVISION_ANNOTATION,
} from "../resources/resource.ts";
import type { GitDeploy } from "../resources/wire/apps.ts";
import type { ApplyIntent } from "../store/store.ts";

type DeployPatch = Pick<ApplyIntent<"App">, "spec" | "annotations">;

/**
 * Creates the patch of an image deploy. An App has either an image or a source, so a deploy of one removes the other.
 * Every deploy also removes the pin to an earlier image or commit that a rollback has set.
 */
export function createImagePatch(image: string, nowMs: number): DeployPatch {
  return {
    spec: { image, source: null, build: null },
    annotations: createRedeployAnnotations(nowMs),
  };
}

/**
 * Creates the patch of a deploy from a git repository. Fields that the request omits get their defaults, except the
 * settings for following the repository, which are kept.
 */
export function createGitPatch(git: GitDeploy, nowMs: number): DeployPatch {
  const { url, ref, path, dockerfile, credential } = git;
  return {
    spec: {
      image: null,
      source: {
        archive: null,
        local: null,
        empty: null,
        git: {
          url,
          ref: ref ?? null,
          path: path ?? null,
          dockerfile: dockerfile ?? null,
          credential: credential ?? null,
        },
      },
    },
    annotations: createRedeployAnnotations(nowMs),
  };
}

export function createArchivePatch(
  digest: string,
  fields: Readonly<Record<string, unknown>>,
  nowMs: number,
): DeployPatch {
  return {
    spec: {
      ...fields,
      image: null,
      source: { archive: digest, git: null, local: null, empty: null },
    },
    annotations: createRedeployAnnotations(nowMs),
  };
}

/** Creates a patch that keeps the image or source of an App, and makes Berth resolve it again. */
export function createRedeployPatch(nowMs: number): DeployPatch {
  return { spec: {}, annotations: createRedeployAnnotations(nowMs) };
}

/**
 * Returns the annotations that a redeploy sets. They also make Berth retry a quarantined revision or a failed build,
 * because the user asks for a deploy.
 */
function createRedeployAnnotations(nowMs: number): Record<string, string | null> {
  const now = timestamp(nowMs);
  return {
    [DEPLOYED_AT_ANNOTATION]: now,
    [RETRIED_AT_ANNOTATION]: now,
    [SOURCE_REVISION_ANNOTATION]: null,
    [IMAGE_HOLD_ANNOTATION]: null,
  };
}
