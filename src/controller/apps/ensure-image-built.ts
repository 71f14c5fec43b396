import { BerthError, type ErrorCode } from "../../base/errors.ts";
import type { Resource } from "../../resources/resource.ts";
import type { Reason } from "../reason.ts";
import type { DesiredApp } from "./desired-app.ts";
import type { ReconcilerContext } from "./reconciler-context.ts";

export type ImageBuildResult =
  | { readonly type: "waiting"; readonly progress: Reason }
  /** The build waits for disk space, without a time limit. */
  | {
      readonly type: "waiting";
      readonly progress: null;
      readonly outage: Reason;
      readonly nextRetryAtMs: number | null;
    }
  | { readonly type: "done" }
  /** Another build cannot succeed until the source changes. */
  | { readonly type: "refused"; readonly failure: Reason };

/**
 * Starts or continues the build of a version's image. `resource` has the spec of this version, possibly of an earlier
 * revision. Throws if a later attempt may succeed, such as when a git server cannot be reached.
 */
export function ensureImageBuilt(
  context: ReconcilerContext,
  resource: Resource<"App">,
  desired: DesiredApp,
  revision: string,
): ImageBuildResult {
  const { builds, images, store, retries } = context;
  const { name } = desired;
  const wait = retries.getWait(name, "build");
  if (wait) throw wait;
  retries.begin(name, "build");
  const state = builds.ensure(resource, { image: desired.image, revision });
  if (state.type === "queued" || state.type === "running") {
    const reason = state.type === "queued" ? "BuildQueued" : "Building";
    return { type: "waiting", progress: { reason, message: state.message } };
  }
  if (state.type === "waiting") {
    const { message, retryAtMs: nextRetryAtMs } = state;
    const outage = {
      reason: "DiskFull",
      message: `the build waits for space: ${message}; it starts when there is enough space`,
    };
    return { type: "waiting", progress: null, outage, nextRetryAtMs };
  }
  builds.clearResult(name);
  if (state.type === "succeeded") {
    retries.succeed(name, "build");
    images.markAbsent(desired.image);
    const what = revision.slice(0, 12);
    const message = `build ${state.id} made ${desired.image} from ${what}`;
    store.events.record({ kind: "App", name, type: "Normal", reason: "Built", message });
    return { type: "done" };
  }
  const { reason, message } = state;
  if (state.terminal) return { type: "refused", failure: { reason, message } };
  store.events.record({ kind: "App", name, type: "Warning", reason, message });
  const code = errorCodesByBuildReason[reason] ?? "build_failed";
  const deadlineMs = desired.app.rollout.progressDeadlineMs;
  throw retries.fail(name, "build", new BerthError(code, message), { deadlineMs });
}

/** The error codes for the reasons of failed builds and sources. */
export const errorCodesByBuildReason: Readonly<Record<string, ErrorCode>> = {
  EngineUnreachable: "engine_unreachable",
  DiskFull: "disk_full",
  GitUnreachable: "git_unreachable",
  RegistryUnreachable: "registry_unreachable",
};
