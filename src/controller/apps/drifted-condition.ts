import type { Reason } from "../reason.ts";
import type { AppFindings, SetCondition } from "./app-findings.ts";
import { listForeignContainers } from "./plan/observed-containers.ts";

type DriftFindings = Pick<
  AppFindings,
  "containers" | "desired" | "foreignOld" | "plan" | "resource"
>;

/**
 * Sets the Drifted condition while a container still has a change that was made by hand: Berth has stopped correcting
 * the change, or cannot correct it yet.
 */
export function setDriftedCondition(findings: DriftFindings, set: SetCondition): void {
  const { plan, resource } = findings;
  const loop = plan?.driftLoop ?? null;
  const drift: Reason | null =
    loop === null
      ? (findForeignSettings(findings) ?? findForeignOldSettings(findings))
      : {
          reason: "DriftLoop",
          message: `"${loop}" was changed by hand three times in ten minutes, so Berth has stopped correcting it; find out what changes it, then run berth retry ${resource.metadata.name}`,
        };
  set("Drifted", drift && "True", drift?.reason ?? "", drift?.message ?? "");
}

/**
 * Returns the settings in which a container of the desired version differs from the spec; null if no container
 * differs.
 */
export function findForeignSettings({ containers, desired }: DriftFindings): Reason | null {
  if (!desired || desired.app.suspend) return null;
  const [foreign] = listForeignContainers(desired, containers);
  if (!foreign) return null;
  const names = foreign.differences.join(", ");
  return {
    reason: "OtherSettings",
    message: `the container ${foreign.container.name} was created or changed by hand, with other settings: ${names}; it is replaced as soon as Berth can create its replacement`,
  };
}

/**
 * Returns the settings in which a container of an earlier version differs from its revision. Berth does not correct
 * these settings, because the desired version replaces the container.
 */
function findForeignOldSettings({ foreignOld, resource }: DriftFindings): Reason | null {
  const [foreign] = foreignOld;
  if (!foreign || resource.spec.suspend === true) return null;
  const names = foreign.differences.join(", ");
  return {
    reason: "OtherSettings",
    message: `the container ${foreign.container.name} of an earlier version, which still runs, was created or changed by hand, with other settings: ${names}; it is replaced together with its version`,
  };
}
