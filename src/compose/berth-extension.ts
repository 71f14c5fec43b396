import { isObject } from "../base/json.ts";
import type { AppSpec } from "../resources/app-spec.ts";
import { NO_DOMAIN } from "../resources/field-schemas.ts";
import type { Manifest } from "../resources/kinds.ts";
import { applyMergePatch } from "../resources/merge-patch.ts";
import { forbiddenKeys } from "../resources/plain-value.ts";
import { ORIGIN_ANNOTATION } from "../resources/resource.ts";
import { type ComposeNode, getValue, listEntries } from "./compose-tree.ts";
import { describeReach } from "./describe-reach.ts";
import { REACH_HINT } from "./project-folder.ts";
import type { ServiceConversion } from "./service-conversion.ts";

/**
 * The key of a service with the fields of its App that Compose cannot express, as a merge patch (RFC 7396) of `labels`,
 * `annotations` and `spec`. `exportCompose` writes it. Compose ignores the key.
 */
export const EXTENSION_KEY = "x-berth";

/** The sections that the extension of a service can have. */
export interface BerthExtension {
  readonly labels?: Readonly<Record<string, unknown>>;
  readonly annotations?: Readonly<Record<string, unknown>>;
  readonly spec?: Readonly<Record<string, unknown>>;
}

/**
 * Returns the variables of a service whose values come from Secrets according to the extension. The values that Compose
 * itself gives these variables are not needed.
 */
export function listSecretVariables({ body }: ServiceConversion): readonly ComposeNode[] {
  const env = getValue(getValue(getValue(body, EXTENSION_KEY), "spec"), "env");
  return listEntries(env).flatMap(({ key, value }) => {
    const variable = getValue(getValue(body, "environment"), key);
    return variable !== undefined && value.kind === "map" ? [variable] : [];
  });
}

/**
 * Applies the extension of a service to its App, and reports the ports that the extension makes public and the folders
 * of the machine that it mounts.
 */
export function applyExtension(
  conversion: ServiceConversion,
  manifest: Manifest<"App">,
): Manifest<"App"> {
  const node = conversion.getNode(EXTENSION_KEY);
  if (!node) return manifest;
  const patch = toPlain(node);
  if (!isExtension(patch)) {
    conversion.addLoss(
      node,
      "this extension is omitted: it may contain only the mappings labels, annotations and spec",
    );
    return manifest;
  }
  const { metadata } = manifest;
  const changed: Manifest<"App"> = {
    ...manifest,
    metadata: {
      ...metadata,
      labels: patchTexts(metadata.labels, patch.labels),
      annotations: patchTexts(metadata.annotations, patch.annotations),
    },
    spec: applyMergePatch({ ...manifest.spec }, patch.spec ?? {}),
  };
  const fields = listFields(patch).join(", ");
  conversion.markHandled(node);
  if (fields !== "")
    conversion.addNote(node, `sets ${fields}, which Compose cannot express`, "only Berth reads it");
  reportFolders(conversion, node, manifest.spec, changed.spec);
  reportPublicPlaces(conversion, node, changed.spec);
  return changed;
}

function isExtension(value: unknown): value is BerthExtension {
  return (
    isObject(value) &&
    Object.entries(value).every(
      ([key, section]) => ["labels", "annotations", "spec"].includes(key) && isObject(section),
    )
  );
}

/**
 * Lists the fields of an extension, with the keys of labels and annotations left out. The origin of an App is not
 * listed, because the user need not know about it.
 */
export function listFields({ labels, annotations = {}, spec = {} }: BerthExtension): string[] {
  const names = Object.keys(annotations).filter((name) => name !== ORIGIN_ANNOTATION);
  return [
    ...(labels ? ["labels"] : []),
    ...(names.length > 0 ? ["annotations"] : []),
    ...Object.keys(spec),
  ];
}

function patchTexts(
  before: Readonly<Record<string, string>> = {},
  patch: Readonly<Record<string, unknown>> = {},
): Record<string, string> {
  return Object.fromEntries(
    Object.entries(applyMergePatch(before, patch)).map(([name, value]) => [name, String(value)]),
  );
}

function toPlain(node: ComposeNode): unknown {
  if (node.kind === "scalar") return typeof node.value === "string" ? node.text : node.value;
  if (node.kind === "list") return node.items.map(toPlain);
  return Object.fromEntries(
    listEntries(node)
      .filter(({ key }) => !forbiddenKeys.has(key))
      .map(({ key, value }) => [key, toPlain(value)]),
  );
}

/** Reports folders of the machine that the extension adds, and that are outside of the project. */
function reportFolders(
  conversion: ServiceConversion,
  node: ComposeNode,
  before: AppSpec,
  { volumes }: AppSpec,
): void {
  const known = new Set((before.volumes ?? []).map((volume) => JSON.stringify(volume)));
  for (const volume of Array.isArray(volumes) ? volumes : []) {
    if (!("hostPath" in volume) || known.has(JSON.stringify(volume))) continue;
    const reach = describeReach(conversion, volume.hostPath, volume.readOnly === true);
    if (reach !== undefined) conversion.addUnhandledFinding("unsafe", node, reach, REACH_HINT);
  }
}

/**
 * Replaces the list of addresses at which the app is public: the extension can change the app's port, domain and
 * published ports.
 */
function reportPublicPlaces(
  conversion: ServiceConversion,
  node: ComposeNode,
  { port, domain, ports }: AppSpec,
): void {
  const { publicPlaces, app } = conversion;
  const why = `${EXTENSION_KEY} says so`;
  const isRouted = port !== undefined && domain !== NO_DOMAIN;
  const known = publicPlaces.findIndex(({ url }) => url !== null);
  if (known !== -1 && !isRouted) publicPlaces.splice(known, 1);
  if (known === -1 && isRouted) {
    const url = `http://${domain ?? `${app}.<base domain>`}`;
    conversion.addPublic({ url, port: null, why, place: node.place });
  }
  for (const { host, protocol = "tcp", address } of Array.isArray(ports) ? ports : []) {
    const isLoopback = address !== undefined && /^(127\.|::1$)/.test(address);
    const label = `${host}/${protocol}`;
    const isKnown = publicPlaces.some(({ port: other }) => other?.endsWith(label) === true);
    if (!isLoopback && !isKnown)
      conversion.addPublic({ url: null, port: label, why, place: node.place });
  }
}
