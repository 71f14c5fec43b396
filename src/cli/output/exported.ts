import type { ResourceView } from "../../resources/wire/resources.ts";

/** The manifest that would make this resource: without status and without what the server adds. */
export function exported(resource: ResourceView): Record<string, unknown> {
  const { name, labels, annotations } = resource.metadata;
  const own = Object.fromEntries(
    // Berth's own annotations are wishes of a moment, such as a restart.
    Object.entries(annotations).filter(([key]) => !key.startsWith("berth.dev/")),
  );
  return {
    apiVersion: resource.apiVersion,
    kind: resource.kind,
    metadata: {
      name,
      ...(Object.keys(labels).length > 0 ? { labels } : {}),
      ...(Object.keys(own).length > 0 ? { annotations: own } : {}),
    },
    spec: resource.spec,
  };
}
