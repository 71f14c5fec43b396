import type { TSchema } from "typebox";
import { canonicalJson } from "../base/canonical-json.ts";
import { EnvValue } from "../resources/app-spec.ts";
import { createManifestSchema, kinds, specSchemas } from "../resources/kinds.ts";
import * as apps from "../resources/wire/apps.ts";
import * as auth from "../resources/wire/auth.ts";
import * as builds from "../resources/wire/builds.ts";
import * as events from "../resources/wire/events.ts";
import * as models from "../resources/wire/models.ts";
import * as resources from "../resources/wire/resources.ts";
import * as stacks from "../resources/wire/stacks.ts";
import * as system from "../resources/wire/system.ts";
import { ErrorBody, FieldChangeView } from "../resources/wire/wire-schema.ts";
import { completeOperations } from "./openapi-operations.ts";
import {
  isObject,
  type Json,
  type JsonObject,
  mapChildren,
  toGeneratorSchema,
  withoutNull,
} from "./openapi-schemas.ts";

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
  StackItem: stacks.StackItem,
  StackList: stacks.StackList,
  StackDetails: stacks.StackDetails,
  StackPlan: stacks.StackPlan,
  StackWrite: stacks.StackWriteView,
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

/**
 * The schemas that the OpenAPI document has instead of `x-component` placeholders. In route schemas, a placeholder
 * stands for a value that Fastify passes on unchanged.
 */
const composedSchemas: Readonly<Record<string, JsonObject>> = {
  Manifest: { oneOf: kinds.map((kind) => createReference(kind)) },
  Spec: { anyOf: kinds.map((kind) => createReference(`${kind}Spec`)) },
  AppSpecPatch: {
    type: "object",
    description:
      "Fields of AppSpec, and labels. null removes a field; a field that is left out keeps its value.",
    additionalProperties: true,
  },
  AppWriteAnswer: { oneOf: [createReference("AppDetails"), createReference("DryRunReport")] },
  ModelWriteAnswer: { oneOf: [createReference("ModelItem"), createReference("ModelDryRunReport")] },
  ModelStopAnswer: { oneOf: [createReference("ModelList"), createReference("ModelStopDryRun")] },
  AnyModelSpec: { anyOf: [createReference("ModelSpec"), { type: "null" }] },
  Env: {
    type: "object",
    description: "Variables of the app: text, a number, a boolean, or a reference to a Secret.",
    additionalProperties: toGeneratorSchema(toPlainObject(EnvValue)),
  },
};

/**
 * Moves every named schema to the components, and replaces its uses by references. The serializers need whole schemas,
 * and readers of the document need names.
 */
export function withComponents(document: Readonly<Record<string, unknown>>): JsonObject {
  const plain = toPlainObject(document);
  const names = new SchemaNames();
  const schemas = Object.entries(namedSchemas).map(([name, schema]) => {
    const json = toGeneratorSchema(withoutNull(toPlainObject(schema)));
    if (isObject(json)) names.add(json, name);
    return [name, json] as const;
  });
  const previous = plain["components"];
  const paths = isObject(plain["paths"]) ? completeOperations(plain["paths"]) : {};
  return {
    ...plain,
    paths: replaceWithReferences(toGeneratorSchema(paths), names),
    components: {
      ...(isObject(previous) ? previous : {}),
      schemas: {
        ...Object.fromEntries(
          schemas.map(([name, schema]) => [
            name,
            mapChildren(schema, (child) => replaceWithReferences(child, names)),
          ]),
        ),
        ...composedSchemas,
      },
    },
  };
}

/** Finds the names of schemas by their content. */
class SchemaNames {
  readonly #names = new Map<string, string>();
  /**
   * The type and property names of each named schema. Only a schema with an equal outline is compared by its whole
   * content, which is slower.
   */
  readonly #outlines = new Set<string>();

  add(schema: JsonObject, name: string): void {
    const identity = getIdentity(schema);
    if (!this.#names.has(identity)) this.#names.set(identity, name);
    this.#outlines.add(getOutline(schema));
  }

  find(schema: JsonObject): string | undefined {
    return this.#outlines.has(getOutline(schema))
      ? this.#names.get(getIdentity(schema))
      : undefined;
  }
}

function replaceWithReferences(value: Json, names: SchemaNames): Json {
  if (isObject(value)) {
    const component = value["x-component"];
    if (typeof component === "string") return createReference(component);
    const name = names.find(value);
    if (name !== undefined) return createReference(name);
  }
  return mapChildren(value, (child) => replaceWithReferences(child, names));
}

function getOutline({ type, properties }: JsonObject): string {
  return `${JSON.stringify(type)} ${isObject(properties) ? Object.keys(properties).join() : ""}`;
}

/**
 * Returns a text that is equal for equal schemas. It leaves out the patterns of keys, which the OpenAPI plugin drops.
 */
function getIdentity(schema: JsonObject): string {
  return canonicalJson(withoutKeyPatterns(schema));
}

function withoutKeyPatterns(value: Json): Json {
  const mapped = mapChildren(value, withoutKeyPatterns);
  if (isObject(mapped)) delete mapped["propertyNames"];
  return mapped;
}

function createReference(name: string): JsonObject {
  return { $ref: `#/components/schemas/${name}` };
}

function toPlainObject(value: unknown): JsonObject {
  const json: JsonObject = JSON.parse(JSON.stringify(value));
  return json;
}
