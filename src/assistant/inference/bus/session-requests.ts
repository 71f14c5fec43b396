import { isObject } from "../../../base/json.ts";
import { InvalidJsonError, parseStrictJson } from "../../../base/strict-json.ts";
import type { BusValue } from "../../../dbus/port.ts";
import { AssistantError, invalidParameterError } from "../../assistant-error.ts";
import { readOptions } from "../../bus/read-options.ts";
import type { EmbedRequest, GenerateRequest, Guide } from "../service-port.ts";

/** The size limit of a prompt or text. It is the same as for a request over HTTP. */
const BYTES_MAX = 4 * 1024 * 1024;
const TEXTS_MAX = 2_048;
/** The depth limit of a schema's text and the refused property names. They are the same as over HTTP. */
const SCHEMA_DEPTH_MAX = 256;
const forbiddenKeys: ReadonlySet<string> = new Set(["__proto__"]);

const params = { schema: "s", max_tokens: "u", priority: "s" } as const;

/**
 * Parses the arguments of the bus method Generate. The prompt is passed to the model unchanged, without a chat
 * template; chats use HTTP. Throws `invalid_request` or `payload_too_large`, with `param`.
 */
export function parseGenerateCall(
  model: string | undefined,
  args: readonly BusValue[],
): GenerateRequest {
  const prompt = parseText(args[0], "prompt");
  const given = readOptions(params, args[1]);
  if (given.max_tokens === 0)
    throw invalidParameterError(
      "max_tokens",
      "is 0 and must be 1 or more; leave it out for the default",
    );
  return {
    model,
    prompts: [{ kind: "text", text: prompt }],
    n: 1,
    sampling: {},
    maxTokens: given.max_tokens,
    stop: [],
    priority: parsePriority(given.priority),
    guide: parseGuide(given.schema),
    toolChoice: { kind: "none" },
    parallelToolCalls: false,
    isStreamed: true,
    keepAliveMs: undefined,
  };
}

/** Parses the arguments of the bus method Embed. Throws `invalid_request` or `payload_too_large`. */
export function parseEmbedCall(model: string | undefined, args: readonly BusValue[]): EmbedRequest {
  const given = args[0];
  const texts = (Array.isArray(given) ? given : []).map((text, index) =>
    parseText(text, `texts[${index}]`),
  );
  if (texts.length === 0) throw invalidParameterError("texts", "must have at least 1 text");
  if (texts.length > TEXTS_MAX)
    throw invalidParameterError("texts", `may have at most ${TEXTS_MAX} texts`);
  const empty = texts.indexOf("");
  if (empty !== -1) throw invalidParameterError(`texts[${empty}]`, "is empty");
  checkSize(
    "texts",
    texts.reduce((bytes, text) => bytes + Buffer.byteLength(text), 0),
  );
  return { model, texts, priority: "interactive", keepAliveMs: undefined };
}

function parseText(value: BusValue | undefined, param: string): string {
  if (typeof value !== "string") throw invalidParameterError(param, "must be a string");
  checkSize(param, Buffer.byteLength(value));
  return value;
}

function checkSize(param: string, bytes: number): void {
  if (bytes > BYTES_MAX)
    throw new AssistantError(
      "payload_too_large",
      `${param} has ${bytes} bytes; the limit is ${BYTES_MAX}`,
      { param },
    );
}

function parsePriority(priority: string | undefined): "interactive" | "background" {
  if (priority === undefined) return "interactive";
  if (priority === "interactive" || priority === "background") return priority;
  throw invalidParameterError("priority", 'must be "interactive" or "background"');
}

function parseGuide(text: string | undefined): Guide {
  if (text === undefined) return { kind: "none" };
  checkSize("schema", Buffer.byteLength(text));
  const schema = parseSchema(text);
  if (typeof schema !== "boolean" && !isObject(schema))
    throw invalidParameterError("schema", "must be a JSON Schema: an object, true or false");
  return { kind: "json_schema", name: undefined, schema, strict: false };
}

function parseSchema(text: string): unknown {
  const rules = { depthMax: SCHEMA_DEPTH_MAX, forbiddenKeys, subject: "schema" };
  try {
    return parseStrictJson(Buffer.from(text), rules);
  } catch (error) {
    if (!(error instanceof InvalidJsonError)) throw error;
    throw new AssistantError("invalid_request", error.message, { param: "schema" });
  }
}
