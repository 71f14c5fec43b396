import type { AppSpec } from "../resources/app-spec.ts";
import type { Store } from "./store.ts";

/** Returns the digests of the uploaded archives that Apps use; implements `Store.archivesInUse`. */
export function findArchivesInUse(
  store: Pick<Store, "list" | "revisions">,
  except?: string,
): ReadonlySet<string> {
  const digests = new Set<string>();
  const take = ({ source }: AppSpec) => {
    if (source && "archive" in source) digests.add(source.archive);
  };
  for (const app of store.list("App")) {
    if (app.metadata.name === except) continue;
    take(app.spec);
    for (const revision of store.revisions.list(app.metadata.name)) take(revision.spec);
  }
  return digests;
}
