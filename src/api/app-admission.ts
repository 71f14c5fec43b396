import type { PlannedResource } from "../controller/port.ts";
import { AppAdmission } from "../resources/app-admission.ts";
import { isKind } from "../resources/resource.ts";
import type { Admission } from "../store/store.ts";
import type { ApiContext } from "./api-context.ts";

/** Returns the check that the store runs before it writes an App. The check throws AdmissionError. */
export function createAppAdmission({ store, config }: ApiContext): Admission<"App"> {
  return (app) => new AppAdmission(store, config).assertAdmissible(app);
}

/** Checks the Apps of a request that writes several at once, in the state that they would have after the request. */
export function assertAppsAdmissible(
  { store, config }: ApiContext,
  planned: readonly PlannedResource[],
): void {
  const admission = new AppAdmission(store, config);
  const written = planned.map(({ resource }) => resource).filter((one) => isKind(one, "App"));
  for (const app of written) admission.expect(app);
  for (const app of written) admission.assertAdmissible(app);
}
