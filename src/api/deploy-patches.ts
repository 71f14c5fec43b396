import { timestamp } from "../base/clock.ts";
import {
  DEPLOYED_AT_ANNOTATION,
  RETRIED_AT_ANNOTATION,
  SOURCE_REVISION_ANNOTATION,
} from "../resources/resource.ts";
import type { GitDeploy } from "../resources/wire/apps.ts";
import type { ApplyIntent } from "../store/store.ts";

type DeployPatch = Pick<ApplyIntent<"App">, "spec" | "annotations">;

/**
 * What each kind of deploy writes. An App is made of an image or of a source, never of both, so each
 * takes the other away; and a deploy ends what a rollback holds.
 */
export function createImagePatch(image: string): DeployPatch {
  return {
    spec: { image, source: null, build: null },
    annotations: { [SOURCE_REVISION_ANNOTATION]: null, [DEPLOYED_AT_ANNOTATION]: null },
  };
}

/** What is not given is at its default, whatever was there before; how the App follows its repository stays. */
export function createGitPatch(git: GitDeploy, nowMs: number): DeployPatch {
  const { url, ref, path, dockerfile, credential } = git;
  return {
    spec: {
      image: null,
      source: {
        archive: null,
        local: null,
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
    spec: { ...fields, image: null, source: { archive: digest, git: null, local: null } },
    annotations: createRedeployAnnotations(nowMs),
  };
}

/** The source as it is in the spec, looked at anew. */
export function createSameSourcePatch(nowMs: number): DeployPatch {
  return { spec: {}, annotations: createRedeployAnnotations(nowMs) };
}

/** A person asks for it, so a revision that was given up, or whose build did not succeed, is tried again too. */
function createRedeployAnnotations(nowMs: number): Record<string, string | null> {
  const now = timestamp(nowMs);
  return {
    [DEPLOYED_AT_ANNOTATION]: now,
    [RETRIED_AT_ANNOTATION]: now,
    [SOURCE_REVISION_ANNOTATION]: null,
  };
}
