import type { EffectiveApp } from "../../resources/app-defaults.ts";

export interface Strategy {
  readonly type: "recreate" | "rolling";
  /** CamelCase, and the sentence that goes with it. */
  readonly reason: string;
  readonly message: string;
}

/**
 * How a new version replaces the old one. A rolling swap needs something in front of the app that
 * can switch between two versions; a published port of the machine belongs to one container only.
 */
export function chooseStrategy(app: EffectiveApp): Strategy {
  if (app.rollout.strategy === "recreate") {
    return { type: "recreate", reason: "AskedFor", message: "the spec asks for recreate" };
  }
  return {
    type: "recreate",
    reason: "NoIngress",
    message:
      "without an ingress a new version starts after the old one has stopped; requests in between fail",
  };
}
