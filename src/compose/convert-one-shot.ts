import type { ServiceConversion } from "./service-conversion.ts";

/** Fields that an App without an end has, and a one-shot has not. */
const fieldsOfServices = ["port", "domain", "ingress", "ports", "healthCheck"] as const;

/** Converts a service for whose end other services wait, such as a migration, to a one-shot. */
export function convertOneShot(conversion: ServiceConversion): void {
  const { spec } = conversion;
  spec.oneShot = true;
  conversion.addServiceFinding(
    "note",
    "other services wait for this one to exit, so it runs once (oneShot)",
    "its work has to be repeatable: an interrupted run is repeated",
  );
  const omitted = fieldsOfServices.filter((field) => spec[field] !== undefined);
  for (const field of [...fieldsOfServices, "restart", "replicas"] as const) delete spec[field];
  if (omitted.length === 0) return;
  conversion.publicPlaces.length = 0;
  conversion.addServiceFinding(
    "lost",
    `omitted, because an app that runs once has none: ${omitted.join(", ")}`,
  );
}
