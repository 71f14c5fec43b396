import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import { InvalidSpecError, type SpecIssue } from "../base/errors.ts";
import { isObject } from "../base/json.ts";
import { formatSuggestion } from "../base/spelling-suggestions.ts";
import { checkSpec, type SpecRules } from "./check-spec.ts";
import { checkPrintable } from "./check-text.ts";
import type { Schema, Syntax } from "./describe-schema.ts";
import { explainErrors } from "./explain-errors.ts";
import { formatDottedPath } from "./json-pointer.ts";
import {
  API_VERSION,
  createManifestSchema,
  type Kind,
  kinds,
  type Manifest,
  type SpecOf,
} from "./kinds.ts";
import { createPartialSchema } from "./partial-schema.ts";
import { checkPlainValue } from "./plain-value.ts";
import { checkStack } from "./stack.ts";

/**
 * Validates a whole document. Throws InvalidSpecError with all issues. Their paths are JSON Pointers into the document
 * (`/spec/port`). For an unknown key the path is that of the key, and for a missing key that of its parent.
 */
export function validateManifest(value: unknown, rules: SpecRules = {}): Manifest {
  const read = tryValidateManifest(value, rules);
  if ("issues" in read) throw createInvalidSpecError(getTitle(value), read.issues);
  return read.manifest;
}

/** Validates like `validateManifest`, but returns the issues instead of throwing them. */
export function tryValidateManifest(
  value: unknown,
  rules: SpecRules = {},
  syntax: Syntax = "yaml",
): { readonly manifest: Manifest } | { readonly issues: readonly SpecIssue[] } {
  const unplain = checkPlainValue(value);
  if (unplain) return { issues: [unplain] };
  if (!isObject(value)) {
    const what = syntax === "yaml" ? "a mapping" : "an object";
    const message = `expected ${what} with apiVersion, kind, metadata and spec`;
    return { issues: [{ path: "", message }] };
  }
  const kind = readKind(value);
  if (typeof kind === "object") return { issues: [kind] };
  const validate = ajv.compile<Manifest>(getSchema("manifest", kind));
  const manifest: unknown = value;
  if (!validate(manifest)) return { issues: explainErrors(validate.errors ?? [], syntax) };
  const issues = [
    ...checkSpec(kind, manifest.spec, manifest.metadata.name, rules),
    ...checkStack(manifest),
    ...checkPrintable(manifest),
  ];
  return issues.length > 0 ? { issues } : { manifest };
}

/**
 * Validates a whole spec, such as the result of merging the fields of several managers. The paths of issues are paths
 * in the document (`/spec/port`). `name` is the name of the resource, if it is known.
 */
export function validateSpec<K extends Kind>(kind: K, spec: unknown, name?: string): SpecOf[K] {
  const title = name === undefined ? kind : `${kind} "${name}"`;
  const validate = ajv.compile<{ readonly spec: SpecOf[K] }>(getSchema("spec", kind));
  const valid = validateAgainstSchema(validate, title, spec);
  const issues = checkSpec(kind, valid, name);
  if (issues.length > 0) throw createInvalidSpecError(title, issues);
  return valid;
}

/**
 * Validates fields of a JSON document that are to be merged into a spec. Refuses unknown keys and wrong types; keys may
 * be missing, and null removes a field. Throws InvalidSpecError like `validateSpec`.
 */
export function validatePartialSpec(
  kind: Kind,
  fields: unknown,
): Readonly<Record<string, unknown>> {
  const validate = ajv.compile<{ readonly spec: Readonly<Record<string, unknown>> }>(
    getSchema("partial", kind),
  );
  return validateAgainstSchema(validate, kind, fields, "json");
}

/** Formats an issue as one line: the field, then the problem. */
export function formatIssue(issue: SpecIssue): string {
  const field = formatDottedPath(issue.path);
  return field === "" ? issue.message : `${field}: ${issue.message}`;
}

const ajv = new Ajv2020({
  // Ajv need not validate the schemas themselves, because they are part of Berth and a test checks them.
  meta: false,
  validateSchema: false,
  allErrors: true,
  strict: true,
  strictTypes: false,
  verbose: true,
  coerceTypes: false,
  useDefaults: false,
});

type SchemaForm = "manifest" | "spec" | "partial";

/** Ajv caches compiled schemas by object identity, so each schema has to stay the same object. */
const plainSchemas = new Map<string, Schema>();

function getSchema(form: SchemaForm, kind: Kind): Schema {
  const key = `${form} ${kind}`;
  const known = plainSchemas.get(key);
  if (known) return known;
  // A copy through JSON drops the markers that TypeBox keeps on schemas, which a strict Ajv refuses.
  const manifest: Schema = JSON.parse(JSON.stringify(createManifestSchema(kind)));
  const spec = manifest.properties?.["spec"] ?? {};
  const schema =
    form === "manifest"
      ? manifest
      : wrapSpecSchema(form === "spec" ? spec : createPartialSchema(spec));
  plainSchemas.set(key, schema);
  return schema;
}

/** Wraps the schema of a spec in the schema of a document, so that the paths of issues are paths in the document. */
function wrapSpecSchema(spec: Schema): Schema {
  return { type: "object", properties: { spec }, required: ["spec"], additionalProperties: false };
}

function validateAgainstSchema<T>(
  validate: ValidateFunction<{ readonly spec: T }>,
  title: string,
  spec: unknown,
  syntax: Syntax = "yaml",
): T {
  const unplain = checkPlainValue(spec);
  if (unplain) throw createInvalidSpecError(title, [{ ...unplain, path: `/spec${unplain.path}` }]);
  const document: unknown = { spec };
  if (!validate(document))
    throw createInvalidSpecError(title, explainErrors(validate.errors ?? [], syntax));
  return document.spec;
}

/** Returns the kind of the document, or an issue if the apiVersion or the kind is missing or unknown. */
function readKind(document: Readonly<Record<string, unknown>>): Kind | SpecIssue {
  const { apiVersion, kind } = document;
  if (apiVersion === undefined && kind === undefined) {
    return {
      path: "",
      message: `not a document of Berth: it has to start with apiVersion: ${API_VERSION} and a kind (${kinds.join(", ")})`,
    };
  }
  if (apiVersion === undefined) {
    return { path: "", message: `missing key "apiVersion" (write apiVersion: ${API_VERSION})` };
  }
  if (apiVersion !== API_VERSION) {
    return {
      path: "/apiVersion",
      message: `expected "${API_VERSION}", found ${formatValue(apiVersion)}`,
    };
  }
  if (kind === undefined) {
    return { path: "", message: `missing key "kind" (one of ${kinds.join(", ")})` };
  }
  const known = kinds.find((candidate) => candidate === kind);
  if (known !== undefined) return known;
  const hint = typeof kind === "string" ? formatSuggestion(kind, kinds) : "";
  return {
    path: "/kind",
    message: `unknown kind ${formatValue(kind)}${hint === "" ? `; known kinds: ${kinds.join(", ")}` : hint}`,
  };
}

function formatValue(value: unknown): string {
  return (JSON.stringify(value) ?? "nothing").slice(0, 80);
}

function getTitle(value: unknown): string {
  if (!isObject(value)) return "the document";
  const { kind, metadata } = value;
  const name = isObject(metadata) ? metadata["name"] : undefined;
  if (typeof kind !== "string" || !kinds.some((known) => known === kind)) return "the document";
  return typeof name === "string" && name.length <= 63 ? `${kind} "${name}"` : kind;
}

function createInvalidSpecError(title: string, issues: readonly SpecIssue[]): InvalidSpecError {
  const [first] = issues;
  const more = issues.length > 1 ? ` (and ${issues.length - 1} more)` : "";
  return new InvalidSpecError(
    `${title} is not valid: ${first ? formatIssue(first) : "unknown"}${more}`,
    issues,
  );
}
