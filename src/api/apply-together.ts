import type { PlannedResource } from "../controller/port.ts";
import { AppAdmission } from "../resources/app-admission.ts";
import { isKind } from "../resources/resource.ts";
import type { ApplyIntent, ApplyResult } from "../store/store.ts";
import type { ApiContext } from "./api-context.ts";

/**
 * Writes the resources of one request, all or none. A dry run decides in the same way and returns the same results, but
 * writes nothing. Each resource is checked as if the resources before it were already written; the Apps are then
 * checked against all Apps as they would be after the request. Throws what `Store.apply` throws, and AdmissionError.
 *
 * `planned` contains the resources as they would be after the request, for the plans of a dry run.
 */
export function applyTogether(
  { store, config }: Pick<ApiContext, "store" | "config">,
  intents: readonly ApplyIntent[],
  { isDryRun }: { readonly isDryRun: boolean },
): { readonly results: readonly ApplyResult[]; readonly planned: readonly PlannedResource[] } {
  const applyAll = () => intents.map((intent) => store.apply(intent));
  const preview = store.preview(() => {
    const results = applyAll();
    const planned = results.map(({ resource }): PlannedResource => {
      const values = isKind(resource, "Secret")
        ? store.secrets.reveal(resource.metadata.name)
        : undefined;
      return values ? { resource, values } : { resource };
    });
    return { results, planned };
  });
  // The admission check compares each new App with the stored one. So it runs after the preview, whose writes
  // have been rolled back.
  const admission = new AppAdmission(store, config);
  const apps = preview.results.map(({ resource }) => resource).filter((one) => isKind(one, "App"));
  for (const app of apps) admission.expect(app);
  for (const app of apps) admission.assertAdmissible(app);
  return isDryRun ? preview : { ...preview, results: store.batch(applyAll) };
}
