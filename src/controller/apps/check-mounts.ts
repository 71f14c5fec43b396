import { BerthError } from "../../base/errors.ts";
import type { Volume } from "../../resources/app-mount-spec.ts";
import type { AppSpec } from "../../resources/app-spec.ts";
import { findCondition } from "../../resources/app-status.ts";
import type { Resource } from "../../resources/resource.ts";
import type { Store } from "../../store/store.ts";
import type { Reason } from "../reason.ts";
import type { DesiredApp } from "./desired-app.ts";
import type { Operation } from "./plan/plan-types.ts";

const MOUNT_REFUSED = "MountRefused";

type MountCheck = Pick<Store, "findMountProblem">;

/**
 * Returns the reason why no containers may be created if the App mounts a path of the machine that is not allowed. The
 * check at admission is not enough, because a link in the path may have changed since then.
 */
export function findRefusedMount(store: MountCheck, spec: AppSpec): Reason | undefined {
  const problem = findProblem(store, listHostPaths(spec));
  return problem === undefined ? undefined : { reason: MOUNT_REFUSED, message: problem };
}

/**
 * True if the last reconcile run refused a mount. The time since that run does not count against the progress deadline.
 */
export function wasMountRefused({ status }: Resource<"App">): boolean {
  return findCondition(status?.conditions ?? [], "Ready")?.reason === MOUNT_REFUSED;
}

/**
 * Throws BerthError `forbidden` if an operation creates or starts a container with a refused mount. The mounts are
 * checked again right before each operation, because the earlier check of the spec may be out of date, and an earlier
 * version may have other mounts.
 */
export function assertMountable(
  store: MountCheck,
  operations: readonly Operation[],
  desired: DesiredApp,
): void {
  if (!operations.some(({ type }) => type === "createContainer" || type === "startContainer"))
    return;
  const problem = findProblem(store, listHostPaths(desired.app));
  if (problem !== undefined) throw new BerthError("forbidden", problem);
}

/** Lists the paths that the App mounts. Its files are left out: Berth writes them below its data directory. */
function listHostPaths({ volumes = [] }: { readonly volumes?: readonly Volume[] }): string[] {
  return volumes.flatMap((volume) => ("hostPath" in volume ? [volume.hostPath] : []));
}

function findProblem(store: MountCheck, paths: readonly string[]): string | undefined {
  for (const path of paths) {
    const problem = store.findMountProblem(path);
    if (problem !== undefined)
      return `no container is started: ${path} ${problem}; change hostPath, or the symbolic links in this path`;
  }
  return undefined;
}
