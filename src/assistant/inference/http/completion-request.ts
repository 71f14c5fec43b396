import { Type } from "typebox";
import type { Prompt } from "../runner.ts";
import type { GenerateRequest } from "../service-port.ts";
import { checked, kindOf, refused } from "./checked.ts";
import {
  generationFields,
  generationOf,
  type StreamWish,
  schemaParamOf,
  streamWishOf,
} from "./generation-parameters.ts";
import { objectOf } from "./json-body.ts";
import { type StrayParameters, strayParameters, unsupported } from "./parameters.ts";

const PROMPTS_MAX = 64;
/** Of one request: each takes a place in the queue. */
const CHOICES_MAX = 64;
/** Vocabularies end far below. */
const TOKEN_MAX = 2 ** 31 - 1;

const fields = {
  ...generationFields,
  prompt: Type.Unknown(),
  echo: Type.Optional(Type.Boolean()),
  best_of: Type.Optional(Type.Integer()),
  logprobs: Type.Optional(Type.Integer({ minimum: 0, maximum: 5 })),
} as const;

export const completionParameters: ReadonlySet<string> = new Set(Object.keys(fields));
const completionBody = checked(Type.Object(fields));

export interface CompletionRequest extends StrayParameters {
  readonly generate: GenerateRequest;
  readonly stream: StreamWish;
  readonly logprobs: boolean;
  /** What each choice begins with: its prompt, where `echo` asks for it. */
  readonly echoes: readonly string[];
  readonly schemaParam: string;
}

/** Throws AssistantError `invalid_request` or `unsupported_parameter`, both with `param`. */
export function completionRequestOf(body: unknown): CompletionRequest {
  const raw = objectOf(body);
  const { unknown: names, further } = strayParameters(raw, completionParameters, "completions");
  const unknown = new Set(names);
  const given = completionBody(raw, "");
  const n = given.n ?? 1;
  if (given.best_of !== undefined && given.best_of !== n) {
    throw unsupported("best_of", "every choice is returned; use n");
  }
  const prompts = promptsOf(given.prompt);
  if (prompts.length * n > CHOICES_MAX) {
    throw refused("n", `times the number of prompts may be at most ${CHOICES_MAX}`);
  }
  const stream = streamWishOf(given, unknown);
  const isEcho = given.echo ?? false;
  if (isEcho && given.logprobs !== undefined) {
    throw unsupported("echo", "a prompt has no logprobs; leave echo or logprobs out");
  }
  return {
    generate: {
      ...generationOf(given, given.logprobs),
      isStreamed: stream.isPassedOn,
      prompts,
      toolChoice: { kind: "none" },
      parallelToolCalls: false,
    },
    stream,
    logprobs: given.logprobs !== undefined,
    echoes: prompts.flatMap((prompt) => Array.from({ length: n }, () => echoOf(prompt, isEcho))),
    schemaParam: schemaParamOf(given),
    unknown: [...unknown],
    further,
  };
}

function echoOf(prompt: Prompt, isEcho: boolean): string {
  if (!isEcho) return "";
  if (prompt.kind === "text") return prompt.text;
  throw unsupported("echo", "it takes prompts that are text");
}

function promptsOf(prompt: unknown): Prompt[] {
  if (prompt === undefined) throw refused("prompt", "is required");
  if (typeof prompt === "string") return [{ kind: "text", text: prompt }];
  if (!Array.isArray(prompt)) throw wrongPrompt("prompt", prompt);
  if (prompt.length === 0) throw refused("prompt", "has to have at least 1 item");
  if (typeof prompt[0] === "number") return [tokensOf(prompt, "prompt")];
  if (prompt.length > PROMPTS_MAX) throw refused("prompt", `may have at most ${PROMPTS_MAX} items`);
  return prompt.map((item: unknown, index) => {
    const at = `prompt[${index}]`;
    if (typeof item === "string") return { kind: "text", text: item };
    if (Array.isArray(item)) return tokensOf(item, at);
    throw wrongPrompt(at, item);
  });
}

function tokensOf(items: readonly unknown[], at: string): Prompt {
  if (items.length === 0) throw refused(at, "has to have at least 1 item");
  const tokens = items.map((item, index) => {
    if (typeof item !== "number" || !Number.isInteger(item) || item < 0 || item > TOKEN_MAX) {
      throw refused(`${at}[${index}]`, "has to be the id of a token, as the items before it");
    }
    return item;
  });
  return { kind: "tokens", tokens };
}

function wrongPrompt(at: string, value: unknown) {
  return refused(
    at,
    `has to be a string, an array of strings, or ids of tokens, and is ${kindOf(value)}`,
  );
}
