import { Ajv2020 } from "ajv/dist/2020.js";
import type { FormatsPlugin } from "ajv-formats";
import ajvFormats from "ajv-formats";
import { isMultipleOf } from "./strings-and-numbers/decimal.ts";
import { upgradeSchema } from "./upgrade-schema.ts";

const SHOWN_MAX = 200;

/** Returns the problems of a document, one line each; an empty list if it is valid. */
export type DocumentValidator = (document: unknown) => readonly string[];

/**
 * Creates a validator with Ajv, independent of the grammar. Throws if Ajv cannot compile the schema. The
 * validator runs the client's regular expressions, so it must run in a thread that can be stopped.
 */
export function createDocumentValidator(schema: unknown): DocumentValidator {
  const ajv = new Ajv2020({
    strict: false,
    // The schema is not checked against a meta-schema, because the grammar compiler has checked it already and is
    // stricter.
    validateSchema: false,
    meta: false,
    logger: false,
    // A property named `constructor` counts only if the document itself contains it, not if it is inherited.
    ownProperties: true,
    code: { regExp: Object.assign(lenientRegExp, { code: "lenientRegExp" }) },
  });
  addFormats(ajv);
  // Ajv's own `multipleOf` is replaced, because Ajv divides doubles and therefore finds that 0.07 is not a multiple of
  // 0.01.
  ajv.removeKeyword("multipleOf").addKeyword({
    keyword: "multipleOf",
    type: "number",
    schemaType: "number",
    validate: (step: number, value: number) => isMultipleOf(value, step),
  });
  const validate = ajv.compile(upgradeSchema(schema));
  return (document) => {
    if (validate(document)) return [];
    return (validate.errors ?? []).map(({ instancePath, message }) =>
      `${instancePath || "the document"} ${message ?? "is not valid"}`.slice(0, SHOWN_MAX),
    );
  };
}

/**
 * Adds the formats of the package ajv-formats. In Node.js, its CommonJS default export is nested one level deeper than
 * its types declare.
 */
function addFormats(ajv: Ajv2020): void {
  const plugin: FormatsPlugin | { readonly default: FormatsPlugin } = ajvFormats;
  const add = "default" in plugin ? plugin.default : plugin;
  add(ajv, { mode: "full" });
}

/** Compiles a pattern with the flag `u`, or without it if it is invalid with the flag. */
function lenientRegExp(source: string, flags: string): RegExp {
  try {
    return new RegExp(source, flags);
  } catch {
    return new RegExp(source);
  }
}
