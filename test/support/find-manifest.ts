import type { Kind, Manifest } from "../../src/resources/kinds.ts";

export function isOfKind<K extends Kind>(manifest: Manifest, kind: K): manifest is Manifest<K> {
  return manifest.kind === kind;
}

/** Returns the manifest with that kind and name. Throws if there is none. */
export function requireManifest<K extends Kind>(
  manifests: readonly Manifest[],
  kind: K,
  name: string,
): Manifest<K> {
  for (const manifest of manifests) {
    if (isOfKind(manifest, kind) && manifest.metadata.name === name) return manifest;
  }
  throw new Error(`no ${kind} "${name}" among ${manifests.map((m) => m.metadata.name).join(", ")}`);
}
