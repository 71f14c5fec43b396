import type { AppFindings, SetCondition } from "./app-findings.ts";

/** The Built condition: whether the image of the spec's own source is there, whatever version runs meanwhile. */
export function setBuiltCondition(findings: AppFindings, set: SetCondition): void {
  const { resource, held, build, ownImage } = findings;
  if (resource.spec.source === undefined) set("Built", null, "", "");
  else if (ownImage === null) {
    const why = held ?? findings.blocked;
    if (why) set("Built", "False", why.reason, why.message);
    else set("Built", "Unknown", "ResolvingSource", "the source is looked for");
  } else if (isImageInUse(findings, ownImage))
    set("Built", "True", "Succeeded", `${ownImage} is there: containers were made of it`);
  else if (!build) set("Built", "Unknown", "NotBuilt", `${ownImage} has not been asked for yet`);
  else if (build.state === "succeeded")
    set("Built", "True", "Succeeded", `build ${build.id} made ${ownImage}`);
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
      build.message ?? `build ${build.id} did not end; it will be made again`,
    );
  }
}

/**
 * True where no record tells of the image, and containers do: Berth was killed between the image and
 * its record, or the record is older than those that are kept. What failed or was cancelled since was a build
 * of an image that had gone, whatever still runs.
 */
function isImageInUse({ build, containers }: AppFindings, ownImage: string): boolean {
  if (build && build.state !== "abandoned") return false;
  return containers.some(({ image }) => image === ownImage);
}
