import { dirname, resolve } from "node:path";
import type { Manifest } from "../../resources/kinds.ts";
import type { ParsedDocument } from "../../resources/parse-manifests.ts";

/**
 * Makes the folder of a local source, which a file names relative to itself, absolute for the store. `folder` is the
 * watched folder as configured, not its real path, because its links may change.
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
