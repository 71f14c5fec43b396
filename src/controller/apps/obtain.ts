import type { Resource } from "../../resources/resource.ts";
import type { SourceState } from "../builds/port.ts";
import { type BuildStep, buildStep } from "./build-step.ts";
import type { ReconcilerContext } from "./context.ts";
import type { DesiredApp } from "./desired.ts";
import type { Operation } from "./plan/model.ts";
import { type PullStep, pullStep } from "./pull-step.ts";
import { revisionOf } from "./source-look.ts";

/** The steps of a plan that bring an image, which may take minutes: nobody waits for them here. */
export type Obtaining = Extract<Operation, { readonly type: "pullImage" | "buildImage" }>;

export function isObtaining(operation: Operation): operation is Obtaining {
  return operation.type === "pullImage" || operation.type === "buildImage";
}

/** Looks after the image of a version. `resource` has the spec that the version was made from. */
export function obtainImage(
  context: ReconcilerContext,
  operation: Obtaining,
  {
    resource,
    desired,
    source,
  }: {
    readonly resource: Resource<"App">;
    readonly desired: DesiredApp;
    readonly source: SourceState | null;
  },
): PullStep | BuildStep {
  if (operation.type === "pullImage") return pullStep(context, operation.image, desired);
  return buildStep(context, resource, desired, revisionOf(context, source, desired.image));
}
