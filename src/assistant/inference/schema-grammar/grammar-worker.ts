import { readlinkSync } from "node:fs";
import { parentPort } from "node:worker_threads";
import { LRUCache } from "lru-cache";
import { getErrorMessage } from "../../../base/errors.ts";
import { AssistantError } from "../../assistant-error.ts";
import { compileLayout, compileSchema } from "./compile-schema.ts";
import { createDocumentValidator, type DocumentValidator } from "./document-validator.ts";
import type { GrammarAnswer, GrammarRequest } from "./grammar-worker-protocol.ts";
import { scalarGrammar } from "./scalar-grammar.ts";

/** The maximum number of cached validators, each a few functions that Ajv generated. */
const VALIDATORS_MAX = 64;

const validators = new LRUCache<string, DocumentValidator>({ max: VALIDATORS_MAX });

/** The problem reported for a document that Ajv cannot validate: such a document is never treated as valid. */
const notValidated = "the document could not be validated against the schema";

// Compiling a few schemas warms up the thread, because the first compilations are slow before V8 optimises the code.
for (const schema of [
  {
    type: "object",
    properties: { a: { type: "string", pattern: "^a+$" }, b: { type: "integer" } },
  },
  { anyOf: [{ type: "array", items: { enum: ["a", "b"] }, maxItems: 3 }, { type: "number" }] },
]) {
  compileSchema(schema, scalarGrammar);
  createDocumentValidator(schema)({});
}
parentPort?.on("message", (request: GrammarRequest) => postAnswer(handleRequest(request)));
postAnswer({ type: "ready", thread: readThreadNumber() });

function readThreadNumber(): number | undefined {
  try {
    return Number(readlinkSync("/proc/thread-self").split("/").at(-1));
  } catch {
    return undefined;
  }
}

function postAnswer(message: GrammarAnswer): void {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
  parentPort?.postMessage(message);
}

function handleRequest(request: GrammarRequest): GrammarAnswer {
  try {
    switch (request.type) {
      case "compile":
        return {
          type: "grammar",
          text: compileSchema(JSON.parse(request.schema), scalarGrammar),
        };
      case "layout":
        return { type: "grammar", text: compileLayout(request.layout, scalarGrammar) };
      default:
        return { type: "problems", problems: validateDocument(request.schema, request.document) };
    }
  } catch (error) {
    return error instanceof AssistantError
      ? { type: "refused", message: error.message, param: error.param }
      : { type: "failed", message: getErrorMessage(error) };
  }
}

function validateDocument(schema: string, document: unknown): readonly string[] {
  let validator = validators.get(schema);
  if (!validator) {
    try {
      validator = createDocumentValidator(JSON.parse(schema));
    } catch {
      validator = () => [notValidated];
    }
  }
  validators.set(schema, validator);
  return validator(document);
}
