import { timestamp } from "../base/clock.ts";
import { DEPLOYED_AT, RETRIED_AT, SOURCE_REVISION } from "../resources/resource.ts";
import type { GitDeploy } from "../resources/wire/apps.ts";
import type { ApplyIntent } from "../store/store.ts";

type Change = Pick<ApplyIntent<"App">, "spec" | "annotations">;

/**
 * What each kind of deploy writes. An App is made of an image or of a source, never of both, so each
 * takes the other away; and a deploy ends what a rollback holds.
 */
export function imageChange(image: string): Change {
  return {
    spec: { image, source: null, build: null },
    annotations: { [SOURCE_REVISION]: null, [DEPLOYED_AT]: null },
  };
}

/** What is not given is at its default, whatever was there before; how the App follows its repository stays. */
export function gitChange(git: GitDeploy, nowMs: number): Change {
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
    annotations: anew(nowMs),
  };
}

export function archiveChange(
  digest: string,
  fields: Readonly<Record<string, unknown>>,
  nowMs: number,
): Change {
  return {
    spec: { ...fields, image: null, source: { archive: digest, git: null, local: null } },
    annotations: anew(nowMs),
  };
}

/** The source as it is in the spec, looked at anew. */
export function sameSourceChange(nowMs: number): Change {
  return { spec: {}, annotations: anew(nowMs) };
}

/** A person asks for it, so a revision that was given up, or whose build did not succeed, is tried again too. */
function anew(nowMs: number): Record<string, string | null> {
  const now = timestamp(nowMs);
  return { [DEPLOYED_AT]: now, [RETRIED_AT]: now, [SOURCE_REVISION]: null };
}
