import { type Static, type TSchema, Type } from "typebox";
import type { GenerateRequest, Guide, SamplingParams } from "../service-port.ts";
import { createValidator, describeValueType, invalidParamError } from "./body-validator.ts";
import { egressField, parseEgress } from "./egress-parameter.ts";

/** What chat and plain completions have in common. Unions are checked by hand, for better messages. */
export const generationFields = {
  model: Type.Optional(Type.String({ maxLength: 256 })),
  n: Type.Optional(Type.Integer({ minimum: 1, maximum: 8 })),
  stream: Type.Optional(Type.Boolean()),
  stream_options: Type.Optional(
    Type.Object({
      include_usage: Type.Optional(Type.Union([Type.Boolean(), Type.Null()])),
      include_obfuscation: Type.Optional(Type.Union([Type.Boolean(), Type.Null()])),
      svc_counts: Type.Optional(Type.Union([Type.Boolean(), Type.Null()])),
      svc_hold: Type.Optional(Type.Union([Type.Boolean(), Type.Null()])),
    }),
  ),
  temperature: Type.Optional(Type.Number({ minimum: 0, maximum: 2 })),
  top_p: Type.Optional(Type.Number({ minimum: 0, maximum: 1 })),
  top_k: Type.Optional(Type.Integer({ minimum: -1, maximum: 1_000_000 })),
  min_p: Type.Optional(Type.Number({ minimum: 0, maximum: 1 })),
  seed: Type.Optional(Type.Integer()),
  presence_penalty: Type.Optional(Type.Number({ minimum: -2, maximum: 2 })),
  frequency_penalty: Type.Optional(Type.Number({ minimum: -2, maximum: 2 })),
  repeat_penalty: Type.Optional(Type.Number({ exclusiveMinimum: 0, maximum: 10 })),
  repetition_penalty: Type.Optional(Type.Number({ exclusiveMinimum: 0, maximum: 10 })),
  logit_bias: Type.Optional(
    Type.Record(Type.String(), Type.Number({ minimum: -100, maximum: 100 }), {
      maxProperties: 1024,
    }),
  ),
  stop: Type.Optional(Type.Unknown()),
  max_tokens: Type.Optional(Type.Integer()),
  max_completion_tokens: Type.Optional(Type.Integer()),
  svc_priority: Type.Optional(Type.Enum(["interactive", "background"])),
  keep_alive: Type.Optional(Type.Unknown()),
  response_format: Type.Optional(Type.Unknown()),
  svc_scopes: egressField,
} as const satisfies Readonly<Record<string, TSchema>>;

const Generation = Type.Object(generationFields);
type Generation = Static<typeof Generation>;

/** What a request says of its stream. */
export interface StreamOptions {
  readonly isStream: boolean;
  readonly includeUsage: boolean;
  /** Whether counts are told as they become known, and not only with the usage. */
  readonly includeCounts: boolean;
  /** Whether an answer is passed on as it comes; a guided one may be held until it has been checked. */
  readonly isUnbuffered: boolean;
}

/** `unknown` collects the options of a stream that is none. */
export function parseStreamOptions(body: Generation, unknown: Set<string>): StreamOptions {
  const isStream = body.stream ?? false;
  const options = body.stream_options;
  if (!isStream && options !== undefined) unknown.add("stream_options");
  return {
    isStream,
    includeUsage: isStream && options?.include_usage === true,
    includeCounts: isStream && options?.svc_counts === true,
    isUnbuffered: isStream && options?.svc_hold !== true,
  };
}

const STOPS_MAX = 4;
const STOP_CHARACTERS_MAX = 256;
/** Vocabularies end far below. */
const TOKEN_MAX = 2 ** 31 - 1;
/** llama.cpp takes 2^32 - 1 for "any seed"; a client's seed is one seed. */
const SEED_MAX = 2 ** 32 - 2;

/** The part of a request that both routes share; `logprobs` is how many are asked for. */
export function parseGeneration(
  body: Generation,
  logprobs: number | undefined,
): Omit<GenerateRequest, "prompts" | "toolChoice" | "parallelToolCalls" | "isStreamed"> {
  return {
    model: body.model === "" ? undefined : body.model,
    n: body.n ?? 1,
    sampling: { ...parseSampling(body), logprobs },
    maxTokens: parseMaxTokens(body),
    stop: parseStop(body.stop),
    priority: body.svc_priority ?? "interactive",
    guide: parseResponseFormat(body.response_format),
    keepAliveMs: parseKeepAlive(body.keep_alive),
    egress: parseEgress(body.svc_scopes),
  };
}

function parseSampling(body: Generation): SamplingParams {
  const { repeat_penalty: repeat, repetition_penalty: repetition } = body;
  if (repeat !== undefined && repetition !== undefined && repeat !== repetition) {
    throw invalidParamError(
      "repetition_penalty",
      "is another word for repeat_penalty: send one of them",
    );
  }
  return {
    temperature: body.temperature,
    topP: body.top_p,
    // Both mean that all tokens stay in.
    topK: body.top_k === -1 ? 0 : body.top_k,
    minP: body.min_p,
    seed: body.seed === undefined ? undefined : foldSeed(body.seed),
    repeatPenalty: repeat ?? repetition,
    presencePenalty: body.presence_penalty,
    frequencyPenalty: body.frequency_penalty,
    logitBias: body.logit_bias === undefined ? undefined : parseLogitBias(body.logit_bias),
  };
}

/** Any integer is a seed; engines take 32 bits. */
function foldSeed(seed: number): number {
  const folded = ((seed % 2 ** 32) + 2 ** 32) % 2 ** 32;
  return Math.min(folded, SEED_MAX);
}

function parseLogitBias(
  biases: Readonly<Record<string, number>>,
): Readonly<Record<string, number>> {
  for (const token of Object.keys(biases)) {
    if (!/^\d{1,10}$/.test(token) || Number(token) > TOKEN_MAX) {
      throw invalidParamError("logit_bias", "has to have ids of tokens as keys: digits");
    }
  }
  return biases;
}

function parseMaxTokens(body: Generation): number | undefined {
  const { max_tokens: older, max_completion_tokens: newer } = body;
  if (older !== undefined && newer !== undefined && older !== newer) {
    throw invalidParamError(
      "max_completion_tokens",
      "is the new word for max_tokens: send one of them",
    );
  }
  const [name, value] =
    newer === undefined ? ["max_tokens", older] : ["max_completion_tokens", newer];
  if (value === undefined) return undefined;
  if (value === -1) return Number.POSITIVE_INFINITY;
  if (value < 1)
    throw invalidParamError(name, "has to be 1 or more, or -1 for all that the context holds");
  return value;
}

export function parseStop(stop: unknown): readonly string[] {
  if (stop === undefined) return [];
  const isList = Array.isArray(stop);
  const stops: readonly unknown[] = isList ? stop : [stop];
  if (stops.length > STOPS_MAX)
    throw invalidParamError("stop", `may have at most ${STOPS_MAX} texts`);
  return stops.map((text, index) => {
    const at = isList ? `stop[${index}]` : "stop";
    if (typeof text !== "string") {
      throw invalidParamError(
        at,
        `has to be a string${isList ? "" : " or an array of strings"}, and is ${describeValueType(text)}`,
      );
    }
    if (text === "") throw invalidParamError(at, "is empty, and would stop everything");
    if (text.length > STOP_CHARACTERS_MAX) {
      throw invalidParamError(at, `may have at most ${STOP_CHARACTERS_MAX} characters`);
    }
    return text;
  });
}

const responseFormat = createValidator(
  Type.Object({ type: Type.Enum(["text", "json_object", "json_schema"]) }),
);
const jsonSchema = createValidator(
  Type.Object({
    name: Type.Optional(Type.Union([Type.String({ maxLength: 128 }), Type.Null()])),
    strict: Type.Optional(Type.Union([Type.Boolean(), Type.Null()])),
    schema: Type.Unknown(),
  }),
);

function parseResponseFormat(format: unknown): Guide {
  if (format === undefined) return { kind: "none" };
  const { type } = responseFormat(format, "response_format");
  if (type === "text") return { kind: "none" };
  const { json_schema: inner, schema: bare }: { json_schema?: unknown; schema?: unknown } = {
    ...(typeof format === "object" ? format : {}),
  };
  // llama-server, Together and clients made for them put the schema here, with either type.
  if (bare !== undefined && bare !== null) {
    if (inner !== undefined && inner !== null) {
      throw invalidParamError(
        "response_format.schema",
        `stands beside ${schemaPath}, which is one too many`,
      );
    }
    return {
      kind: "json_schema",
      name: undefined,
      schema: parseSchema(bare, "response_format.schema"),
      strict: false,
    };
  }
  if (type === "json_object") return { kind: "json_object" };
  const given = jsonSchema(inner ?? throwMissing("response_format.json_schema"), schemaPath);
  return {
    kind: "json_schema",
    name: given.name ?? undefined,
    schema: parseSchema(given.schema, `${schemaPath}.schema`),
    strict: given.strict ?? false,
  };
}

/** Where the client has written its schema, for errors about it. */
export function getSchemaParam({
  response_format: format,
}: {
  readonly response_format?: unknown;
}) {
  const isBare = typeof format === "object" && format !== null && "schema" in format;
  return isBare ? "response_format.schema" : `${schemaPath}.schema`;
}

function parseSchema(schema: unknown, param: string): object | boolean {
  if (typeof schema === "boolean") return schema;
  if (typeof schema === "object" && schema !== null && !Array.isArray(schema)) return schema;
  throw invalidParamError(param, `has to be a JSON Schema, and is ${describeValueType(schema)}`);
}

const schemaPath = "response_format.json_schema";

function throwMissing(param: string): never {
  throw invalidParamError(param, "is required");
}

const unitsMs: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
};

/** Seconds, or a text such as `5m`; anything below zero is for ever. */
export function parseKeepAlive(value: unknown): number | undefined {
  if (value === undefined) return undefined;
  if (typeof value === "number" && Number.isFinite(value)) {
    return value < 0 ? Number.POSITIVE_INFINITY : value * 1000;
  }
  const match = typeof value === "string" ? /^(-?\d+(?:\.\d+)?)(ms|s|m|h)?$/.exec(value) : null;
  if (!match) {
    throw invalidParamError(
      "keep_alive",
      "has to be a number of seconds, or a text such as 30s, 5m or -1",
    );
  }
  const amount = Number(match[1]);
  return amount < 0 ? Number.POSITIVE_INFINITY : amount * (unitsMs[match[2] ?? "s"] ?? 1000);
}
