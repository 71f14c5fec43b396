import { resolve } from "node:path";
import { listDataPlaces } from "../resources/app-data.ts";
import type { SecretReference } from "../resources/app-spec.ts";
import type { Manifest } from "../resources/kinds.ts";
import { createMergePatch } from "../resources/merge-patch.ts";
import { ORIGIN_ANNOTATION } from "../resources/resource.ts";
import { getServiceName } from "../resources/stack.ts";
import { type BerthExtension, EXTENSION_KEY, listFields } from "./berth-extension.ts";
import { type ExportNames, escapeVariables, exportService } from "./export-service.ts";
import { importCompose } from "./import-compose.ts";

/** A part of a stack that only Berth understands, or that the Compose file leaves out. */
export interface ExportFinding {
  readonly service: string;
  readonly message: string;
}

/** A variable of the Compose file, which gets its value from the user, as the App gets it from a Secret. */
export interface ExportVariable {
  readonly name: string;
  readonly secret: string;
  /** The key of the value in the Secret; undefined if the Secret has only one value. */
  readonly key: string | undefined;
}

export interface ComposeExport {
  /** The Compose file as a plain value. */
  readonly document: Readonly<Record<string, unknown>>;
  readonly variables: readonly ExportVariable[];
  readonly findings: readonly ExportFinding[];
}

/**
 * Converts the Apps of a stack to a Compose file whose import results in the same Apps. What Compose cannot express is
 * in the extension of its service: the difference between the App and the import of its service without the extension.
 */
export function exportCompose(
  stack: string,
  apps: readonly Manifest<"App">[],
  /** The folder to which the folders of sources are relative. */
  folder: string,
): ComposeExport {
  const variables = new Map<string, ExportVariable>();
  const volumes = new Set<string>();
  const names: ExportNames = {
    stack,
    nameSecret: (reference) => nameVariable(reference, variables),
    nameData: (app, { type, name: own, shared }) => {
      // Apps may have data of their own with the same name, which must not become shared in the Compose file.
      const isTaken =
        !shared &&
        apps.some(
          ({ metadata, spec }) =>
            metadata.name !== app &&
            listDataPlaces(spec).some((other) => other.type === type && other.name === own),
        );
      const name = isTaken ? `${getServiceName(app, stack)}-${own}` : own;
      if (type === "volume") volumes.add(name);
      return type === "volume" ? name : `./${name}`;
    },
  };
  const services = new Map(
    apps.map(({ metadata, spec }) => [
      getServiceName(metadata.name, stack),
      exportService(metadata.name, spec, names),
    ]),
  );
  const createDocument = (): Record<string, unknown> => ({
    name: stack,
    services: escapeVariables(Object.fromEntries(services)),
    ...(volumes.size > 0 && {
      volumes: Object.fromEntries([...volumes].map((name) => [name, {}])),
    }),
  });
  const imported = importDocument(createDocument(), stack, folder, [...variables.keys()]);
  const findings: ExportFinding[] = [];
  for (const app of apps) {
    const service = getServiceName(app.metadata.name, stack);
    const extension = compare(imported.get(service), app);
    if (Object.keys(extension).length === 0) continue;
    services.set(service, { ...services.get(service), [EXTENSION_KEY]: extension });
    const shown = listFields(withoutVariables(extension));
    if (shown.length > 0)
      findings.push({
        service,
        message: `Compose cannot express ${shown.join(", ")}: only Berth reads these fields, in ${EXTENSION_KEY}`,
      });
  }
  return { document: createDocument(), variables: [...variables.values()], findings };
}

/** Returns the Apps that the import of a Compose file results in, by the name of their service. */
function importDocument(
  document: unknown,
  stack: string,
  folder: string,
  variables: readonly string[],
): ReadonlyMap<string, Manifest<"App">> {
  const file = resolve(folder, "compose.yaml");
  const text = JSON.stringify(document);
  const { apps } = importCompose(
    {
      files: [file],
      stack,
      specFolder: folder,
      environment: new Map(variables.map((name) => [name, "value"])),
    },
    {
      read: (path) => (path === file ? { text } : { problem: "there is no such file" }),
      displayPath: (path) => path,
    },
  );
  // The import of the exported file would have another origin, so each extension has to contain the right one.
  return new Map(apps.map(({ service, manifest }) => [service, hideOrigin(manifest)]));
}

/** Replaces the origin by one that no App has. */
function hideOrigin(manifest: Manifest<"App">): Manifest<"App"> {
  const annotations = { ...manifest.metadata.annotations, [ORIGIN_ANNOTATION]: "" };
  return { ...manifest, metadata: { ...manifest.metadata, annotations } };
}

/** Returns the extension with which the import of the Compose file results in `app` instead of `imported`. */
function compare(imported: Manifest<"App"> | undefined, app: Manifest<"App">): BerthExtension {
  const sections = {
    labels: createMergePatch(imported?.metadata.labels ?? {}, app.metadata.labels ?? {}),
    annotations: createMergePatch(
      imported?.metadata.annotations ?? {},
      app.metadata.annotations ?? {},
    ),
    spec: createMergePatch({ ...imported?.spec }, { ...app.spec }),
  };
  return Object.fromEntries(
    Object.entries(sections).filter(([, patch]) => Object.keys(patch).length > 0),
  );
}

/** Leaves out references to Secrets, about which the user need not know. */
function withoutVariables({ spec = {}, ...extension }: BerthExtension): BerthExtension {
  const { env: _env, ...fields } = spec;
  return { ...extension, spec: fields };
}

function nameVariable(
  { secret, key }: SecretReference,
  variables: Map<string, ExportVariable>,
): string {
  const known = [...variables.values()].find(
    (variable) => variable.secret === secret && variable.key === key,
  );
  if (known) return known.name;
  const plain = [secret, ...(key === undefined ? [] : [key])]
    .join("_")
    .toUpperCase()
    .replaceAll(/[^A-Z0-9]+/g, "_")
    .replace(/^(?=[0-9])/, "_");
  let name = plain;
  for (let count = 2; variables.has(name); count += 1) name = `${plain}_${count}`;
  variables.set(name, { name, secret, key });
  return name;
}
