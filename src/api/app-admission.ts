import { AppAdmission } from "../resources/app-admission.ts";
import type { Admission } from "../store/store.ts";
import type { ApiContext } from "./api-context.ts";

/** Returns the check that the store runs before it writes an App. The check throws AdmissionError. */
export function createAppAdmission({ store, config }: ApiContext): Admission<"App"> {
  return (app) => new AppAdmission(store, config).assertAdmissible(app);
}
