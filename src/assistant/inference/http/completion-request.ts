import { Type } from "typebox";
import type { Prompt } from "../runner.ts";
import type { GenerateRequest } from "../service-port.ts";
import { createValidator, describeValueType, invalidParamError } from "./body-validator.ts";
import {
  generationFields,
  getSchemaParam,
  parseGeneration,
  parseStreamOptions,
  type StreamOptions,
} from "./generation-parameters.ts";
import { parseObject } from "./json-body.ts";
import {
  findUnknownParameters,
  type UnknownParameters,
  unsupportedParamError,
} from "./unknown-parameters.ts";

const PROMPTS_MAX = 64;
/** The largest number of choices per request, which is the number of prompts times `n`. */
const CHOICES_MAX = 64;
/** The largest token id that is accepted. No vocabulary is nearly as large. */
const TOKEN_MAX = 2 ** 31 - 1;

const fields = {
  ...generationFields,
  prompt: Type.Unknown(),
  echo: Type.Optional(Type.Boolean()),
  best_of: Type.Optional(Type.Integer()),
  logprobs: Type.Optional(Type.Integer({ minimum: 0, maximum: 5 })),
} as const;

export const completionParameters: ReadonlySet<string> = new Set(Object.keys(fields));
const completionBody = createValidator(Type.Object(fields));

export interface CompletionRequest extends UnknownParameters {
  readonly generate: GenerateRequest;
  readonly stream: StreamOptions;
  readonly logprobs: boolean;
  /** The text with which each choice begins: its prompt if `echo` is set, else "". */
  readonly echoes: readonly string[];
  readonly schemaParam: string;
}

/**
 * Parses the body of a completion request. Throws AssistantError `invalid_request` or `unsupported_parameter`, both
 * with `param`.
 */
export function parseCompletionRequest(body: unknown): CompletionRequest {
  const raw = parseObject(body);
  const { unknown: names, passthrough: further } = findUnknownParameters(
    raw,
    completionParameters,
    "completions",
  );
  const unknown = new Set(names);
  const given = completionBody(raw, "");
  const n = given.n ?? 1;
  if (given.best_of !== undefined && given.best_of !== n) {
    throw unsupportedParamError("best_of", "Berth returns every choice; use n in its place");
  }
  const prompts = parsePrompts(given.prompt);
  if (prompts.length * n > CHOICES_MAX) {
    throw invalidParamError("n", `times the number of prompts may be at most ${CHOICES_MAX}`);
  }
  const stream = parseStreamOptions(given, unknown);
  const isEcho = given.echo ?? false;
  if (isEcho && given.logprobs !== undefined) {
    throw unsupportedParamError(
      "echo",
      "logprobs of a prompt are not available; leave echo or logprobs out",
    );
  }
  return {
    generate: {
      ...parseGeneration(given, given.logprobs),
      isStreamed: stream.isUnbuffered,
      prompts,
      toolChoice: { kind: "none" },
      parallelToolCalls: false,
    },
    stream,
    logprobs: given.logprobs !== undefined,
    echoes: prompts.flatMap((prompt) => Array.from({ length: n }, () => getEcho(prompt, isEcho))),
    schemaParam: getSchemaParam(given),
    unknown: [...unknown],
    passthrough: further,
  };
}

function getEcho(prompt: Prompt, isEcho: boolean): string {
  if (!isEcho) return "";
  if (prompt.kind === "text") return prompt.text;
  throw unsupportedParamError("echo", "only text prompts can be echoed");
}

function parsePrompts(prompt: unknown): Prompt[] {
  if (prompt === undefined) throw invalidParamError("prompt", "is required");
  if (typeof prompt === "string") return [{ kind: "text", text: prompt }];
  if (!Array.isArray(prompt)) throw invalidPromptError("prompt", prompt);
  if (prompt.length === 0) throw invalidParamError("prompt", "has to have at least 1 item");
  if (typeof prompt[0] === "number") return [parseTokens(prompt, "prompt")];
  if (prompt.length > PROMPTS_MAX)
    throw invalidParamError("prompt", `may have at most ${PROMPTS_MAX} items`);
  return prompt.map((item: unknown, index) => {
    const at = `prompt[${index}]`;
    if (typeof item === "string") return { kind: "text", text: item };
    if (Array.isArray(item)) return parseTokens(item, at);
    throw invalidPromptError(at, item);
  });
}

function parseTokens(items: readonly unknown[], at: string): Prompt {
  if (items.length === 0) throw invalidParamError(at, "has to have at least 1 item");
  const tokens = items.map((item, index) => {
    if (typeof item !== "number" || !Number.isInteger(item) || item < 0 || item > TOKEN_MAX) {
      throw invalidParamError(`${at}[${index}]`, "has to be a token id, like the items before it");
    }
    return item;
  });
  return { kind: "tokens", tokens };
}

function invalidPromptError(at: string, value: unknown) {
  return invalidParamError(
    at,
    `has to be a string, an array of strings, or token ids, and is ${describeValueType(value)}`,
  );
}
