import type { AppFindings, SetCondition } from "./app-findings.ts";

/**
 * Sets the Built condition, which says if the image of the spec's own source exists. Until the image exists, an older
 * version may run.
 */
export function setBuiltCondition(findings: AppFindings, set: SetCondition): void {
  const { resource, held, build, ownImage } = findings;
  if (resource.spec.source === undefined) set("Built", null, "", "");
  else if (ownImage === null) {
    const why = held ?? findings.blocked;
    if (why) set("Built", "False", why.reason, why.message);
    else set("Built", "Unknown", "ResolvingSource", "the source is being resolved");
  } else if (isImageInUse(findings, ownImage))
    set("Built", "True", "Succeeded", `${ownImage} exists: containers were created from it`);
  else if (!build)
    set("Built", "Unknown", "NotBuilt", `no build of ${ownImage} has been queued yet`);
  else if (build.state === "succeeded")
    set("Built", "True", "Succeeded", `build ${build.id} made ${ownImage}`);
  else if (build.state === "queued" && findings.outage)
    set("Built", "False", findings.outage.reason, findings.outage.message);
  else if (build.state === "queued")
    set("Built", "False", "BuildQueued", `build ${build.id} waits for its turn`);
  else if (build.state === "running") {
    const step = findings.progress?.reason === "Building" ? `: ${findings.progress.message}` : "";
    set("Built", "False", "Building", `build ${build.id} runs${step}`);
  } else {
    const reason =
      build.state === "failed"
        ? "BuildFailed"
        : build.state === "cancelled"
          ? "BuildCancelled"
          : "BuildAbandoned";
    set(
      "Built",
      "False",
      reason,
      build.message ?? `build ${build.id} was interrupted; it will be repeated`,
    );
  }
}

/**
 * True if a container uses the image although no record of a build proves that the image exists. The record may be
 * missing because Berth was killed between the build and its record, or because old records are removed. If the last
 * build failed or was cancelled, the result is false, because Berth starts a build only if the engine does not hold the
 * image.
 */
function isImageInUse({ build, containers }: AppFindings, ownImage: string): boolean {
  if (build && build.state !== "abandoned") return false;
  return containers.some(({ image }) => image === ownImage);
}
