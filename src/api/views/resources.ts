import type { Manifest } from "../../resources/kinds.ts";
import type { Resource } from "../../resources/resource.ts";
import { getStack } from "../../resources/stack.ts";
import type { TemplateParameter } from "../../resources/template-spec.ts";
import type { TokenView } from "../../resources/wire/auth.ts";
import type { ResourceView, SecretView, TemplateView } from "../../resources/wire/resources.ts";
import type { TokenRecord } from "../../store/store.ts";
import { getDeclaringManager } from "./managers.ts";

/** Returns a resource in the form of its manifest, without the internal state of reconcilers. */
export function resourceView(resource: Resource): ResourceView {
  const { metadata } = resource;
  return {
    apiVersion: resource.apiVersion,
    kind: resource.kind,
    metadata: {
      name: metadata.name,
      stack: getStack(metadata) ?? null,
      uid: metadata.uid,
      labels: { ...metadata.labels },
      annotations: { ...metadata.annotations },
      generation: metadata.generation,
      resourceVersion: metadata.resourceVersion,
      creationTimestamp: metadata.creationTimestamp,
      deletionTimestamp: metadata.deletionTimestamp,
      owners: { ...metadata.owners },
    },
    spec: resource.spec,
    status: withoutReconcileState(resource.status),
  };
}

function withoutReconcileState(status: Resource["status"]): Resource["status"] {
  if (status === null || !("memory" in status)) return status;
  const { memory: _memory, ...rest } = status;
  return rest;
}

export function secretView(secret: Resource<"Secret">): SecretView {
  return {
    name: secret.metadata.name,
    type: secret.spec.type ?? "opaque",
    keys: Object.keys(secret.spec.data).toSorted(),
    created_at: secret.metadata.creationTimestamp,
    generation: secret.metadata.generation,
    managed_by: getDeclaringManager(secret),
  };
}

/**
 * Removes the default of a secret parameter, because every reader of the catalog sees it. The parameter stays optional,
 * because its hidden default still applies.
 */
function withoutSecretDefault(parameter: TemplateParameter): TemplateParameter {
  if (parameter.secret !== true || parameter.default === undefined) return parameter;
  const { default: _, ...shown } = parameter;
  return { ...shown, required: false };
}

/** Returns the list item of a template. If the image or the port is a parameter, the item shows the default value. */
export function templateView(template: Manifest<"Template">, isBuiltIn: boolean): TemplateView {
  const { metadata, spec } = template;
  const parameters = (spec.parameters ?? []).map(withoutSecretDefault);
  const defaults = new Map(
    parameters.map((parameter) => [parameter.name, String(parameter.default ?? "")]),
  );
  const fillDefaults = (value: unknown): string =>
    typeof value === "string" || typeof value === "number"
      ? String(value).replaceAll(/\$\{([A-Za-z0-9_]+)\}/g, (whole, name: string) =>
          name === "name" ? whole : (defaults.get(name) ?? whole),
        )
      : "";
  const port = Number(fillDefaults(spec.app["port"]));
  return {
    id: metadata.name,
    name: spec.title,
    description: spec.description,
    category: spec.category,
    image: fillDefaults(spec.app["image"]),
    port: Number.isInteger(port) && port > 0 ? port : null,
    parameters: parameters.map((parameter) => ({
      name: parameter.name,
      description: parameter.description ?? "",
      ...(parameter.default === undefined ? {} : { default: parameter.default }),
      required: parameter.required ?? false,
      secret: parameter.secret ?? false,
      generated: parameter.generate !== undefined,
      pattern: parameter.pattern ?? null,
    })),
    website: spec.website ?? null,
    companions: (spec.companions ?? []).map((companion) => companion.suffix),
    built_in: isBuiltIn,
  };
}

export function tokenView(record: TokenRecord): TokenView {
  return {
    id: record.id,
    name: record.name,
    scope: record.scope,
    kind: record.kind,
    created_at: record.createdAt,
    expires_at: record.expiresAt,
    last_used_at: record.lastUsedAt,
  };
}
