import { type Static, Type } from "typebox";
import { appPhases } from "../app-status.ts";
import { AppItem, PlanView } from "./apps.ts";
import { closed, OneOf } from "./wire-schema.ts";

const itemFields = {
  name: Type.String(),
  status: Type.Unsafe<(typeof appPhases)[number]>({
    ...OneOf(appPhases),
    description:
      "status of the app that most needs attention: failed before degraded, unknown, pending, building, deploying, deleting, running and stopped",
  }),
  apps: Type.Integer({ description: "number of apps" }),
  ready: Type.Integer({ description: "number of apps that are as their newest specs request" }),
  urls: Type.Array(Type.String(), { description: "URLs of the apps that have one" }),
  message: Type.String({ description: "explanation of the status; names the app" }),
};

/** The state of a stack, computed from its apps. It is not stored. */
export const StackItem = Type.Object(itemFields, closed);
export type StackItem = Static<typeof StackItem>;

export const StackList = Type.Object(
  { stacks: Type.Array(StackItem), total: Type.Integer() },
  closed,
);
export type StackList = Static<typeof StackList>;

export const StackDetails = Type.Object(
  {
    ...itemFields,
    members: Type.Array(AppItem, { description: "the apps, by name" }),
    secrets: Type.Array(Type.String(), { description: "names of the Secrets of the stack" }),
  },
  closed,
);
export type StackDetails = Static<typeof StackDetails>;

/** The plans of all apps of a stack. */
export const StackPlan = Type.Object(
  { stack: Type.String(), plans: Type.Array(PlanView, { description: "one for each app" }) },
  closed,
);
export type StackPlan = Static<typeof StackPlan>;

/** The result of an action on all apps of a stack. */
export const StackWriteView = Type.Object(
  {
    dry_run: Type.Boolean(),
    stack: StackDetails,
    changed: Type.Array(Type.String(), {
      description: "the apps and Secrets that the request changes, such as app/blog-web",
    }),
  },
  closed,
);
export type StackWriteView = Static<typeof StackWriteView>;
