import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import { InvalidSpecError, type SpecIssue } from "../base/errors.ts";
import { suggestion } from "../base/nearest.ts";
import { checkSpec } from "./check-spec.ts";
import type { Schema } from "./describe-schema.ts";
import { explainErrors } from "./explain-errors.ts";
import { dotted } from "./json-pointer.ts";
import {
  API_VERSION,
  type Kind,
  kinds,
  type Manifest,
  manifestSchema,
  type SpecOf,
} from "./kinds.ts";
import { partialSchema } from "./partial-schema.ts";
import { checkPlainValue } from "./plain-value.ts";

/**
 * A whole document, as a person writes it. Throws InvalidSpecError with one issue for each thing
 * wrong; paths are JSON Pointers into the document (`/spec/port`). An unknown key's issue points at
 * the key, a missing key's at its parent.
 */
export function validateManifest(value: unknown): Manifest {
  const read = readManifest(value);
  if ("issues" in read) throw invalid(titleOf(value), read.issues);
  return read.manifest;
}

/** As `validateManifest`, without throwing. */
export function readManifest(
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
  const validate = ajv.compile<Manifest>(schemas("manifest", kind));
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
  const validate = ajv.compile<{ readonly spec: SpecOf[K] }>(schemas("spec", kind));
  const valid = shaped(validate, title, spec);
  const issues = checkSpec(kind, valid, name);
  if (issues.length > 0) throw invalid(title, issues);
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
    schemas("partial", kind),
  );
  return shaped(validate, kind, fields);
}

/** One line for people: the field, then what is wrong with it. */
export function issueText(issue: SpecIssue): string {
  const field = dotted(issue.path);
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

type Form = "manifest" | "spec" | "partial";

/** Ajv compiles a schema object once and knows it again, so each one has to stay the same object. */
const plainSchemas = new Map<string, Schema>();

function schemas(form: Form, kind: Kind): Schema {
  const key = `${form} ${kind}`;
  const known = plainSchemas.get(key);
  if (known) return known;
  // Through JSON: TypeBox keeps marks of its own on schemas, which a strict Ajv refuses.
  const manifest: Schema = JSON.parse(JSON.stringify(manifestSchema(kind)));
  const spec = manifest.properties?.["spec"] ?? {};
  const schema =
    form === "manifest" ? manifest : specDocument(form === "spec" ? spec : partialSchema(spec));
  plainSchemas.set(key, schema);
  return schema;
}

/** Wrapped, so that every issue's path is the one that it has in the whole document. */
function specDocument(spec: Schema): Schema {
  return { type: "object", properties: { spec }, required: ["spec"], additionalProperties: false };
}

function shaped<T>(
  validate: ValidateFunction<{ readonly spec: T }>,
  title: string,
  spec: unknown,
): T {
  const unplain = checkPlainValue(spec);
  if (unplain) throw invalid(title, [{ ...unplain, path: `/spec${unplain.path}` }]);
  const document: unknown = { spec };
  if (!validate(document)) throw invalid(title, explainErrors(validate.errors ?? []));
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
      message: `expected "${API_VERSION}", found ${shown(apiVersion)}`,
    };
  }
  if (kind === undefined) {
    return { path: "", message: `missing key "kind" (one of ${kinds.join(", ")})` };
  }
  const known = kinds.find((candidate) => candidate === kind);
  if (known !== undefined) return known;
  const hint = typeof kind === "string" ? suggestion(kind, kinds) : "";
  return {
    path: "/kind",
    message: `unknown kind ${shown(kind)}${hint === "" ? `; known kinds: ${kinds.join(", ")}` : hint}`,
  };
}

function shown(value: unknown): string {
  return (JSON.stringify(value) ?? "nothing").slice(0, 80);
}

function titleOf(value: unknown): string {
  if (!isRecord(value)) return "the document";
  const { kind, metadata } = value;
  const name = isRecord(metadata) ? metadata["name"] : undefined;
  if (typeof kind !== "string" || !kinds.some((known) => known === kind)) return "the document";
  return typeof name === "string" && name.length <= 63 ? `${kind} "${name}"` : kind;
}

function invalid(title: string, issues: readonly SpecIssue[]): InvalidSpecError {
  const [first] = issues;
  const more = issues.length > 1 ? ` (and ${issues.length - 1} more)` : "";
  return new InvalidSpecError(
    `${title} is not valid: ${first ? issueText(first) : "unknown"}${more}`,
    issues,
  );
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}
