import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import { InvalidSpecError, type SpecIssue } from "../base/errors.ts";
import { formatSuggestion } from "../base/spelling-suggestions.ts";
import { checkSpec } from "./check-spec.ts";
import type { Schema } from "./describe-schema.ts";
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

/**
 * A whole document, as a person writes it. Throws InvalidSpecError with one issue for each thing
 * wrong; paths are JSON Pointers into the document (`/spec/port`). An unknown key's issue points at
 * the key, a missing key's at its parent.
 */
export function validateManifest(value: unknown): Manifest {
  const read = tryValidateManifest(value);
  if ("issues" in read) throw createInvalidSpecError(getTitle(value), read.issues);
  return read.manifest;
}

/** As `validateManifest`, without throwing. */
export function tryValidateManifest(
  value: unknown,
): { readonly manifest: Manifest } | { readonly issues: readonly SpecIssue[] } {
  const unplain = checkPlainValue(value);
  if (unplain) return { issues: [unplain] };
  if (!isRecord(value)) {
    const message = "expected a mapping with apiVersion, kind, metadata and spec";
    return { issues: [{ path: "", message }] };
  }
  const kind = readKind(value);
  if (typeof kind === "object") return { issues: [kind] };
  const validate = ajv.compile<Manifest>(getSchema("manifest", kind));
  const manifest: unknown = value;
  if (!validate(manifest)) return { issues: explainErrors(validate.errors ?? []) };
  const issues = checkSpec(kind, manifest.spec, manifest.metadata.name);
  return issues.length > 0 ? { issues } : { manifest };
}

/**
 * A whole spec, such as the merged result of several field managers. Paths are those of the
 * document it belongs to (`/spec/port`). `name` is that of the resource, where it is known.
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
 * Fields to be merged into a spec: unknown keys and wrong types are refused, missing ones are not,
 * and null stands for "take this field away". Throws InvalidSpecError with paths as `validateSpec`.
 */
export function validatePartialSpec(
  kind: Kind,
  fields: unknown,
): Readonly<Record<string, unknown>> {
  const validate = ajv.compile<{ readonly spec: Readonly<Record<string, unknown>> }>(
    getSchema("partial", kind),
  );
  return validateAgainstSchema(validate, kind, fields);
}

/** One line for people: the field, then what is wrong with it. */
export function formatIssue(issue: SpecIssue): string {
  const field = formatDottedPath(issue.path);
  return field === "" ? issue.message : `${field}: ${issue.message}`;
}

const ajv = new Ajv2020({
  allErrors: true,
  strict: true,
  strictTypes: false,
  verbose: true,
  coerceTypes: false,
  useDefaults: false,
});

type SchemaForm = "manifest" | "spec" | "partial";

/** Ajv compiles a schema object once and knows it again, so each one has to stay the same object. */
const plainSchemas = new Map<string, Schema>();

function getSchema(form: SchemaForm, kind: Kind): Schema {
  const key = `${form} ${kind}`;
  const known = plainSchemas.get(key);
  if (known) return known;
  // Through JSON: TypeBox keeps marks of its own on schemas, which a strict Ajv refuses.
  const manifest: Schema = JSON.parse(JSON.stringify(createManifestSchema(kind)));
  const spec = manifest.properties?.["spec"] ?? {};
  const schema =
    form === "manifest"
      ? manifest
      : wrapSpecSchema(form === "spec" ? spec : createPartialSchema(spec));
  plainSchemas.set(key, schema);
  return schema;
}

/** Wrapped, so that every issue's path is the one that it has in the whole document. */
function wrapSpecSchema(spec: Schema): Schema {
  return { type: "object", properties: { spec }, required: ["spec"], additionalProperties: false };
}

function validateAgainstSchema<T>(
  validate: ValidateFunction<{ readonly spec: T }>,
  title: string,
  spec: unknown,
): T {
  const unplain = checkPlainValue(spec);
  if (unplain) throw createInvalidSpecError(title, [{ ...unplain, path: `/spec${unplain.path}` }]);
  const document: unknown = { spec };
  if (!validate(document))
    throw createInvalidSpecError(title, explainErrors(validate.errors ?? []));
  return document.spec;
}

/** The document's kind, or what is wrong with its head. */
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
  if (!isRecord(value)) return "the document";
  const { kind, metadata } = value;
  const name = isRecord(metadata) ? metadata["name"] : undefined;
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

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}
