import type { TSchema } from "typebox";
import { canonicalJson } from "../base/canonical.ts";
import { kinds, manifestSchema, specSchemas } from "../resources/kinds.ts";
import * as apps from "../resources/wire/apps.ts";
import * as auth from "../resources/wire/auth.ts";
import * as builds from "../resources/wire/builds.ts";
import * as events from "../resources/wire/events.ts";
import * as models from "../resources/wire/models.ts";
import * as resources from "../resources/wire/resources.ts";
import { ErrorBody, FieldChangeView } from "../resources/wire/schema.ts";
import * as system from "../resources/wire/system.ts";

type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
type JsonObject = { [key: string]: Json };

/** Everything with a name in the document, in the order in which a reader wants it. */
const named: Readonly<Record<string, TSchema>> = {
  App: manifestSchema("App"),
  Model: manifestSchema("Model"),
  Template: manifestSchema("Template"),
  Secret: manifestSchema("Secret"),
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
  GitHookAnswer: builds.GitHookAnswer,
  LogLine: apps.LogLineView,
  Logs: apps.AppLogs,
  Event: events.EventView,
  EventList: events.EventList,
  Change: events.ChangeView,
  AuditEntry: events.AuditView,
  AuditList: events.AuditList,
  FieldChange: FieldChangeView,
  Error: ErrorBody,
  Login: auth.LoginAnswer,
  Token: auth.TokenView,
  TokenList: auth.TokenList,
  CreatedToken: auth.CreatedToken,
  Resource: resources.ResourceView,
  ResourceList: resources.ResourceList,
  ApplyRequest: resources.ApplyBody,
  ApplyResult: resources.ApplyResultView,
  ApplyAnswer: resources.ApplyAnswer,
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
  Health: system.Health,
  SystemInfo: system.SystemInfo,
  SystemConfig: system.SystemConfig,
  Specs: system.SpecsView,
  PruneAnswer: system.PruneAnswer,
};

/** What stands for a value that routes pass on as it is (`x-component`). */
const composed: Readonly<Record<string, JsonObject>> = {
  Manifest: { oneOf: kinds.map((kind) => reference(kind)) },
  Spec: { anyOf: kinds.map((kind) => reference(`${kind}Spec`)) },
  AppSpecPatch: {
    type: "object",
    description: "Fields of AppSpec, and labels. null takes a field away; what is not given stays.",
    additionalProperties: true,
  },
  AppWriteAnswer: { oneOf: [reference("AppDetails"), reference("DryRunReport")] },
  ModelWriteAnswer: { oneOf: [reference("ModelItem"), reference("ModelDryRunReport")] },
  ModelStopAnswer: { oneOf: [reference("ModelList"), reference("ModelStopDryRun")] },
  AnyModelSpec: { oneOf: [reference("ModelSpec"), { type: "null" }] },
  Env: {
    type: "object",
    description: "Variables of the app: text, a number, a boolean, or a reference to a Secret.",
    additionalProperties: true,
  },
};

/**
 * Puts every named schema under components, and a reference wherever one of them stands: the
 * serializers get whole schemas, and readers of the document get names.
 */
export function withComponents(document: Readonly<Record<string, unknown>>): JsonObject {
  const plain = plainObject(document);
  const names = new Map<string, string>();
  const schemas: JsonObject = {};
  for (const [name, schema] of Object.entries(named)) {
    const json = plainObject(schema);
    const key = identityOf(json);
    if (!names.has(key)) names.set(key, name);
    schemas[name] = json;
  }
  const components: JsonObject = {};
  for (const [name, schema] of Object.entries(schemas)) {
    components[name] = mapChildren(schema, (child) => referenced(child, names));
  }
  const previous = plain["components"];
  return {
    ...plain,
    paths: referenced(plain["paths"] ?? {}, names),
    components: {
      ...(isObject(previous) ? previous : {}),
      schemas: { ...components, ...composed },
    },
  };
}

function referenced(value: Json, names: ReadonlyMap<string, string>): Json {
  if (!isObject(value)) return mapChildren(value, (child) => referenced(child, names));
  const component = value["x-component"];
  if (typeof component === "string") return reference(component);
  const name = names.get(identityOf(value));
  if (name !== undefined) return reference(name);
  return mapChildren(value, (child) => referenced(child, names));
}

function mapChildren(value: Json, change: (child: Json) => Json): Json {
  if (Array.isArray(value)) return value.map((item) => change(item));
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, change(item)]));
}

/**
 * The OpenAPI plugin turns patternProperties into additionalProperties, so two forms of one schema
 * are compared without that difference.
 */
function identityOf(schema: Json): string {
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

function reference(name: string): JsonObject {
  return { $ref: `#/components/schemas/${name}` };
}

function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function plainObject(value: unknown): JsonObject {
  const json: JsonObject = JSON.parse(JSON.stringify(value));
  return json;
}
