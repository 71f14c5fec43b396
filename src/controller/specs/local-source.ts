import { dirname, resolve } from "node:path";
import type { Manifest } from "../../resources/kinds.ts";
import type { ParsedDocument } from "../../resources/parse-manifests.ts";

/**
 * A file names the folder to build from where it stands itself; the store is to know where that is.
 * `folder` is the watched folder as it was given, not where its links lead: those may be moved.
 */
export function withAbsoluteSource(
  document: ParsedDocument,
  folder: string,
  path: string,
): ParsedDocument {
  const { manifest } = document;
  if (!isApp(manifest)) return document;
  const { source } = manifest.spec;
  if (source === undefined || !("local" in source)) return document;
  const local = resolve(folder, dirname(path), source.local);
  return { ...document, manifest: { ...manifest, spec: { ...manifest.spec, source: { local } } } };
}

function isApp(manifest: Manifest): manifest is Manifest<"App"> {
  return manifest.kind === "App";
}
