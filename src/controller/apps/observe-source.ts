import { BerthError } from "../../base/errors.ts";
import { resolveAppDefaults } from "../../resources/app-defaults.ts";
import { RETRIED_AT_ANNOTATION, type Resource } from "../../resources/resource.ts";
import type { SourceState } from "../builds/port.ts";
import type { Reason } from "../reason.ts";
import { inputsDigest } from "./app-inputs.ts";
import { errorCodesByBuildReason } from "./ensure-image-built.ts";
import type { ReconcilerContext } from "./reconciler-context.ts";

/**
 * Returns the state of the source of an App's spec; null for a spec that names an image. A failed source is resolved
 * again if the spec or a Secret has changed, or if the user has asked for a retry.
 */
export function observeSource(
  context: ReconcilerContext,
  resource: Resource<"App">,
): SourceState | null {
  if (resource.spec.source === undefined) return null;
  const { builds, inputsOfFailedSources: sourceFailures, store, retries } = context;
  const { name, annotations } = resource.metadata;
  const state = builds.source(resource);
  if (state.type !== "failed") {
    sourceFailures.delete(name);
    if (state.type === "resolved") retries.succeed(name, "source");
    return state;
  }
  if (!state.terminal) {
    if (!retries.isDue(name, "source")) return state;
    retries.begin(name, "source");
    builds.clearResult(name);
    return builds.source(resource);
  }
  const inputs = `${inputsDigest(store, resource)} ${annotations[RETRIED_AT_ANNOTATION] ?? ""}`;
  const known = sourceFailures.get(name);
  sourceFailures.set(name, inputs);
  if (known === undefined || known === inputs) return state;
  builds.clearResult(name);
  return builds.source(resource);
}

/** Returns the failure of a source that no retry can fix; null if there is none. */
export function findTerminalSourceFailure(state: SourceState | null): Reason | null {
  return state?.type === "failed" && state.terminal
    ? { reason: state.reason, message: state.message }
    : null;
}

/** Throws if the source has failed for a reason that may pass, such as a git server that does not answer. */
export function throwIfTransient(
  context: ReconcilerContext,
  resource: Resource<"App">,
  state: SourceState | null,
): void {
  if (state?.type !== "failed" || state.terminal) return;
  const code = errorCodesByBuildReason[state.reason] ?? "git_unreachable";
  const { progressDeadlineMs } = resolveAppDefaults(resource.spec).rollout;
  throw context.retries.fail(
    resource.metadata.name,
    "source",
    new BerthError(code, state.message),
    { deadlineMs: progressDeadlineMs },
  );
}

/**
 * Returns the commit or digest that an image is built from. It is taken from the resolved source, otherwise from the
 * record of the build.
 */
export function findImageRevision(
  { store }: Pick<ReconcilerContext, "store">,
  source: SourceState | null,
  image: string,
): string {
  if (source?.type === "resolved" && source.image === image) return source.revision;
  return store.builds.findByImage(image)?.revision ?? "";
}
