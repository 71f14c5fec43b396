import { Ajv2020 } from "ajv/dist/2020.js";
import type { FormatsPlugin } from "ajv-formats";
import ajvFormats from "ajv-formats";
import { isMultipleOf } from "./strings-and-numbers/decimal.ts";
import { upgradeSchema } from "./upgrade-schema.ts";

const SHOWN_MAX = 200;

/** Says what is wrong with a document, one line each; empty where it is valid. */
export type DocumentValidator = (document: unknown) => readonly string[];

/**
 * Ajv's judgement, made independently of the grammar. Throws where Ajv cannot make sense of the schema.
 * Runs patterns of the schema's author, so it belongs where it can be stopped.
 */
export function createDocumentValidator(schema: unknown): DocumentValidator {
  const ajv = new Ajv2020({
    strict: false,
    // The schema has been through our own compiler, which is stricter than a meta-schema.
    validateSchema: false,
    meta: false,
    logger: false,
    // A property named `constructor` is there only where the document has it.
    ownProperties: true,
    code: { regExp: Object.assign(lenientRegExp, { code: "lenientRegExp" }) },
  });
  addFormats(ajv);
  // Ajv divides doubles, and so finds that 0.07 is no multiple of 0.01.
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

/** The package is CommonJS: what its type calls the default export stands one level deeper in Node. */
function addFormats(ajv: Ajv2020): void {
  const plugin: FormatsPlugin | { readonly default: FormatsPlugin } = ajvFormats;
  const add = "default" in plugin ? plugin.default : plugin;
  add(ajv, { mode: "full" });
}

/** Patterns are meant with the flag `u`; those that are none with it are read as browsers would. */
function lenientRegExp(source: string, flags: string): RegExp {
  try {
    return new RegExp(source, flags);
  } catch {
    return new RegExp(source);
  }
}
