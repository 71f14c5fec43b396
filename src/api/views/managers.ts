import type { Resource } from "../../resources/resource.ts";

/** The manager that declares the resource, which for a spec file is `file:<path>`. */
export function getDeclaringManager(resource: Resource): string {
  const managers = Object.entries(resource.metadata.managers);
  const declaring = managers.find(([, entry]) => entry.declares);
  return declaring?.[0] ?? managers[0]?.[0] ?? "api";
}
