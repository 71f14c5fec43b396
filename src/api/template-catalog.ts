import { API_VERSION, type Manifest } from "../resources/kinds.ts";
import type { Store } from "../store/store.ts";

export interface CatalogEntry {
  readonly template: Manifest<"Template">;
  readonly isBuiltIn: boolean;
}

interface CatalogDependencies {
  readonly store: Pick<Store, "get" | "list">;
  readonly templates: readonly Manifest<"Template">[];
}

/** Returns the templates sorted by id. A Template resource replaces the built-in template of the same name. */
export function listTemplates({ store, templates }: CatalogDependencies): CatalogEntry[] {
  const byId = new Map<string, CatalogEntry>(
    templates.map((template) => [template.metadata.name, { template, isBuiltIn: true }]),
  );
  for (const { metadata, spec } of store.list("Template")) {
    byId.set(metadata.name, {
      template: toTemplateManifest(metadata.name, spec),
      isBuiltIn: false,
    });
  }
  return [...byId.values()].toSorted((a, b) =>
    a.template.metadata.name < b.template.metadata.name ? -1 : 1,
  );
}

export function findTemplate(
  { store, templates }: CatalogDependencies,
  id: string,
): CatalogEntry | undefined {
  const own = store.get("Template", id);
  if (own) return { template: toTemplateManifest(id, own.spec), isBuiltIn: false };
  const template = templates.find((candidate) => candidate.metadata.name === id);
  return template && { template, isBuiltIn: true };
}

function toTemplateManifest(
  name: string,
  spec: Manifest<"Template">["spec"],
): Manifest<"Template"> {
  return { apiVersion: API_VERSION, kind: "Template", metadata: { name }, spec };
}
