import type { Resource } from "../../resources/resource.ts";

/** Returns the manager that declares the resource, such as `file:<path>` for a resource from a spec file. */
export function getDeclaringManager(resource: Resource): string {
  const managers = Object.entries(resource.metadata.managers);
  const declaring = managers.find(([, entry]) => entry.declares);
  return declaring?.[0] ?? managers[0]?.[0] ?? "api";
}
