import type { PlanReport } from "../port.ts";
import type { ObservedContainer } from "../runtime/port.ts";
import type { DesiredApp } from "./desired-app.ts";
import { getSpecHash } from "./plan/observed-containers.ts";
import type { Operation } from "./plan/plan-types.ts";

/**
 * Lists the steps that will follow the planned ones if the started containers become healthy: the probes, the switch of
 * the route, and the end of the previous version. The list is a forecast, because these steps are planned only after
 * the containers have been observed again.
 */
export function forecastRollout(
  desired: DesiredApp,
  containers: readonly ObservedContainer[],
  planned: readonly Operation[],
): PlanReport["operations"] {
  const started = planned.flatMap((step) =>
    step.type === "createContainer" ? [step.spec.name] : [],
  );
  if (started.length === 0) return [];
  const probes = started.map((target) => ({
    operation: "probeContainer",
    target,
    cause: "requests are sent to the container only when it is healthy",
  }));
  const isSwitched = desired.isRouted && planned.every(({ type }) => type !== "switchRoute");
  const switches = isSwitched
    ? [
        {
          operation: "switchRoute",
          target: desired.name,
          cause: "every replica of the version is healthy",
        },
      ]
    : [];
  const old = containers.filter(
    (container) => container.state === "running" && getSpecHash(container) !== desired.hash,
  );
  const ends =
    desired.strategy.type === "rolling"
      ? old.flatMap(({ name }) => [
          { operation: "drainContainer", target: name, cause: "requests go to the new version" },
          { operation: "removeContainer", target: name, cause: "it has finished its requests" },
        ])
      : [];
  return [...probes, ...switches, ...ends];
}
