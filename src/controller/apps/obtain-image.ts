import type { Resource } from "../../resources/resource.ts";
import type { SourceState } from "../builds/port.ts";
import type { DesiredApp } from "./desired-app.ts";
import { ensureImageBuilt, type ImageBuildResult } from "./ensure-image-built.ts";
import { ensureImagePulled, type ImagePullResult } from "./ensure-image-pulled.ts";
import { findImageRevision } from "./observe-source.ts";
import type { Operation } from "./plan/plan-types.ts";
import type { ReconcilerContext } from "./reconciler-context.ts";

/** The operations that obtain an image. They may take minutes, so a run starts them and does not wait. */
export type ImageOperation = Extract<Operation, { readonly type: "pullImage" | "buildImage" }>;

export function isImageOperation(operation: Operation): operation is ImageOperation {
  return operation.type === "pullImage" || operation.type === "buildImage";
}

/** Pulls or builds the image of a version. `resource` has the spec of the version. */
export function obtainImage(
  context: ReconcilerContext,
  operation: ImageOperation,
  {
    resource,
    desired,
    source,
  }: {
    readonly resource: Resource<"App">;
    readonly desired: DesiredApp;
    readonly source: SourceState | null;
  },
): ImagePullResult | ImageBuildResult {
  if (operation.type === "pullImage") return ensureImagePulled(context, operation.image, desired);
  return ensureImageBuilt(
    context,
    resource,
    desired,
    findImageRevision(context, source, desired.image),
  );
}
