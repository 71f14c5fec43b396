import type { ServiceConversion } from "./service-conversion.ts";

/** Fields that an App can have only if its containers run until they are stopped. A one-shot cannot have them. */
const fieldsOfServices = ["port", "domain", "ingress", "ports", "healthCheck"] as const;

/** Converts a service to a one-shot if other services wait for its end, as for the end of a migration. */
export function convertOneShot(conversion: ServiceConversion): void {
  const { spec } = conversion;
  spec.oneShot = true;
  conversion.addServiceFinding(
    "note",
    "other services wait for this one to exit, so it runs once (oneShot)",
    "the work of this app has to be repeatable: an interrupted run is repeated",
  );
  const omitted = fieldsOfServices.filter((field) => spec[field] !== undefined);
  for (const field of [...fieldsOfServices, "restart", "replicas"] as const) delete spec[field];
  if (omitted.length === 0) return;
  conversion.publicPlaces.length = 0;
  conversion.addServiceFinding(
    "lost",
    `an app that runs once cannot have these fields, which are omitted: ${omitted.join(", ")}`,
  );
}
