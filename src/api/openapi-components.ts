import type { TSchema } from "typebox";
import { canonicalJson } from "../base/canonical-json.ts";
import { createManifestSchema, kinds, specSchemas } from "../resources/kinds.ts";
import * as apps from "../resources/wire/apps.ts";
import * as auth from "../resources/wire/auth.ts";
import * as builds from "../resources/wire/builds.ts";
import * as events from "../resources/wire/events.ts";
import * as models from "../resources/wire/models.ts";
import * as resources from "../resources/wire/resources.ts";
import * as system from "../resources/wire/system.ts";
import { ErrorBody, FieldChangeView } from "../resources/wire/wire-schema.ts";

type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
type JsonObject = { [key: string]: Json };

/** All named schemas of the document, in reading order. */
const namedSchemas: Readonly<Record<string, TSchema>> = {
  App: createManifestSchema("App"),
  Model: createManifestSchema("Model"),
  Template: createManifestSchema("Template"),
  Secret: createManifestSchema("Secret"),
  AppSpec: specSchemas.App,
  ModelSpec: specSchemas.Model,
  TemplateSpec: specSchemas.Template,
  SecretSpec: specSchemas.Secret,
  AppItem: apps.AppItem,
  AppList: apps.AppList,
  AppDetails: apps.AppDetails,
  CreateAppRequest: apps.CreateAppBody,
  DeployRequest: apps.DeployBody,
  FromTemplateRequest: apps.FromTemplateBody,
  Condition: apps.ConditionView,
  Container: apps.ContainerView,
  Plan: apps.PlanView,
  DryRunReport: apps.DryRunReport,
  Revision: apps.RevisionView,
  RevisionList: apps.RevisionList,
  Build: builds.BuildView,
  BuildList: builds.BuildList,
  BuildLog: builds.BuildLogView,
  SourceDeployConfig: apps.SourceDeployConfig,
  UploadedArchive: builds.UploadedArchiveView,
  GitHookAnswer: builds.GitHookResponse,
  LogLine: apps.LogLineView,
  Logs: apps.AppLogs,
  Event: events.EventView,
  EventList: events.EventList,
  Change: events.ChangeView,
  AuditEntry: events.AuditView,
  AuditList: events.AuditList,
  FieldChange: FieldChangeView,
  Error: ErrorBody,
  Login: auth.LoginResponse,
  Token: auth.TokenView,
  TokenList: auth.TokenList,
  CreatedToken: auth.CreatedToken,
  Resource: resources.ResourceView,
  ResourceList: resources.ResourceList,
  ApplyRequest: resources.ApplyBody,
  ApplyResult: resources.ApplyResultView,
  ApplyAnswer: resources.ApplyResponse,
  Deleted: resources.DeletedView,
  SecretItem: resources.SecretView,
  SecretList: resources.SecretList,
  TemplateItem: resources.TemplateView,
  TemplateList: resources.TemplateList,
  ModelItem: models.ModelView,
  ModelList: models.ModelList,
  ModelDetails: models.ModelDetails,
  ModelProgress: models.ModelProgressView,
  ModelPlan: models.ModelPlanView,
  ModelDryRunReport: models.ModelDryRunReport,
  ModelStopDryRun: models.ModelStopDryRun,
  Health: system.HealthView,
  SystemInfo: system.SystemInfo,
  SystemConfig: system.SystemConfig,
  Specs: system.SpecsView,
  PruneAnswer: system.PruneResponse,
};

/** Schemas of values that routes forward without validation (`x-component`). */
const composedSchemas: Readonly<Record<string, JsonObject>> = {
  Manifest: { oneOf: kinds.map((kind) => createReference(kind)) },
  Spec: { anyOf: kinds.map((kind) => createReference(`${kind}Spec`)) },
  AppSpecPatch: {
    type: "object",
    description:
      "Fields of AppSpec, and labels. null removes a field; fields that are not given stay.",
    additionalProperties: true,
  },
  AppWriteAnswer: { oneOf: [createReference("AppDetails"), createReference("DryRunReport")] },
  ModelWriteAnswer: { oneOf: [createReference("ModelItem"), createReference("ModelDryRunReport")] },
  ModelStopAnswer: { oneOf: [createReference("ModelList"), createReference("ModelStopDryRun")] },
  AnyModelSpec: { oneOf: [createReference("ModelSpec"), { type: "null" }] },
  Env: {
    type: "object",
    description: "Variables of the app: text, a number, a boolean, or a reference to a Secret.",
    additionalProperties: true,
  },
};

/**
 * Moves every named schema to the components, and replaces its uses by references. The serializers need whole schemas,
 * and readers of the document need names.
 */
export function withComponents(document: Readonly<Record<string, unknown>>): JsonObject {
  const plain = toPlainObject(document);
  const names = new Map<string, string>();
  const schemas: JsonObject = {};
  for (const [name, schema] of Object.entries(namedSchemas)) {
    const json = toPlainObject(schema);
    const key = getSchemaIdentity(json);
    if (!names.has(key)) names.set(key, name);
    schemas[name] = json;
  }
  const components: JsonObject = {};
  for (const [name, schema] of Object.entries(schemas)) {
    components[name] = mapChildren(schema, (child) => replaceWithReferences(child, names));
  }
  const previous = plain["components"];
  return {
    ...plain,
    paths: replaceWithReferences(plain["paths"] ?? {}, names),
    components: {
      ...(isObject(previous) ? previous : {}),
      schemas: { ...components, ...composedSchemas },
    },
  };
}

function replaceWithReferences(value: Json, names: ReadonlyMap<string, string>): Json {
  if (!isObject(value)) return mapChildren(value, (child) => replaceWithReferences(child, names));
  const component = value["x-component"];
  if (typeof component === "string") return createReference(component);
  const name = names.get(getSchemaIdentity(value));
  if (name !== undefined) return createReference(name);
  return mapChildren(value, (child) => replaceWithReferences(child, names));
}

function mapChildren(value: Json, change: (child: Json) => Json): Json {
  if (Array.isArray(value)) return value.map((item) => change(item));
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, change(item)]));
}

/**
 * Returns a schema in a form for comparison. The OpenAPI plugin turns patternProperties into additionalProperties, so
 * this difference is removed.
 */
function getSchemaIdentity(schema: Json): string {
  return canonicalJson(withoutPatterns(schema));
}

function withoutPatterns(value: Json): Json {
  if (!isObject(value)) return mapChildren(value, withoutPatterns);
  const { patternProperties, ...rest } = value;
  if (patternProperties === undefined || !isObject(patternProperties)) {
    return mapChildren(value, withoutPatterns);
  }
  const inner = Object.values(patternProperties)[0] ?? true;
  return mapChildren({ ...rest, additionalProperties: inner }, withoutPatterns);
}

function createReference(name: string): JsonObject {
  return { $ref: `#/components/schemas/${name}` };
}

function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function toPlainObject(value: unknown): JsonObject {
  const json: JsonObject = JSON.parse(JSON.stringify(value));
  return json;
}
