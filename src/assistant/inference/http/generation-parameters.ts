import { type Static, type TSchema, Type } from "typebox";
import { isObject } from "../../../base/json.ts";
import type { GenerateRequest, Guide, SamplingParams } from "../service-port.ts";
import { createValidator, describeValueType, invalidParamError } from "./body-validator.ts";
import { egressField, parseEgress } from "./egress-parameter.ts";

/**
 * The schema of the parameters that chat and plain completions have in common. Unions are checked in code, which allows
 * better messages.
 */
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

export interface StreamOptions {
  readonly isStream: boolean;
  readonly includeUsage: boolean;
  /** True if token counts are sent as soon as they are known, and not only in `usage`. */
  readonly includeCounts: boolean;
  /**
   * False if the answer is not streamed, or if the client wants an answer with a schema to be held back until it has
   * been checked.
   */
  readonly isUnbuffered: boolean;
}

/** Parses `stream_options`. `unknown` collects the names of ignored members. */
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
/** The largest token id that is accepted. No vocabulary is nearly as large. */
const TOKEN_MAX = 2 ** 31 - 1;
/** The largest seed. In llama.cpp, 2^32 - 1 means "any seed", but a client's seed must be reproducible. */
const SEED_MAX = 2 ** 32 - 2;

/**
 * Parses the parameters that chat and plain completions have in common. `logprobs` is the requested number of logprobs.
 */
export function parseGeneration(
  body: Generation,
  logprobs: number | undefined,
): Omit<GenerateRequest, "prompts" | "toolChoice" | "parallelToolCalls" | "isStreamed"> {
  const stop = parseStop(body.stop);
  const guide = parseResponseFormat(body.response_format);
  // A stop text could cut the document short, so that the answer would fail after the model has generated it.
  if (stop.length > 0 && guide.kind !== "none")
    throw invalidParamError(
      "stop",
      "cannot be combined with a JSON response_format, which ends by itself: leave stop out",
    );
  return {
    model: body.model === "" ? undefined : body.model,
    n: body.n ?? 1,
    sampling: { ...parseSampling(body), logprobs },
    maxTokens: parseMaxTokens(body),
    stop,
    priority: body.svc_priority ?? "interactive",
    guide,
    keepAliveMs: parseKeepAlive(body.keep_alive),
    egress: parseEgress(body.svc_scopes),
  };
}

function parseSampling(body: Generation): SamplingParams {
  const { repeat_penalty: repeat, repetition_penalty: repetition } = body;
  if (repeat !== undefined && repetition !== undefined && repeat !== repetition) {
    throw invalidParamError(
      "repetition_penalty",
      "is another name of repeat_penalty: send only one of them",
    );
  }
  return {
    temperature: body.temperature,
    topP: body.top_p,
    // Both -1 and 0 mean that `top_k` sets no limit.
    topK: body.top_k === -1 ? 0 : body.top_k,
    minP: body.min_p,
    seed: body.seed === undefined ? undefined : foldSeed(body.seed),
    repeatPenalty: repeat ?? repetition,
    presencePenalty: body.presence_penalty,
    frequencyPenalty: body.frequency_penalty,
    logitBias: body.logit_bias === undefined ? undefined : parseLogitBias(body.logit_bias),
  };
}

/** Maps any integer to a 32-bit seed, because engines require one. */
function foldSeed(seed: number): number {
  const folded = ((seed % 2 ** 32) + 2 ** 32) % 2 ** 32;
  return Math.min(folded, SEED_MAX);
}

function parseLogitBias(
  biases: Readonly<Record<string, number>>,
): Readonly<Record<string, number>> {
  for (const token of Object.keys(biases)) {
    if (!/^\d{1,10}$/.test(token) || Number(token) > TOKEN_MAX) {
      throw invalidParamError(
        "logit_bias",
        "has to have token ids as keys, each written in decimal digits",
      );
    }
  }
  return biases;
}

function parseMaxTokens(body: Generation): number | undefined {
  const { max_tokens: older, max_completion_tokens: newer } = body;
  if (older !== undefined && newer !== undefined && older !== newer) {
    throw invalidParamError(
      "max_completion_tokens",
      "is the new name of max_tokens: send only one of them",
    );
  }
  const [name, value] =
    newer === undefined ? ["max_tokens", older] : ["max_completion_tokens", newer];
  if (value === undefined) return undefined;
  if (value === -1) return Number.POSITIVE_INFINITY;
  if (value < 1)
    throw invalidParamError(name, "has to be 1 or more, or -1 for as many as the context holds");
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
    if (text === "") throw invalidParamError(at, "is empty and would end every answer at once");
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
  // llama-server, Together and their clients put the schema directly into `response_format`, with the type
  // `json_object` or `json_schema`.
  if (bare !== undefined && bare !== null) {
    if (inner !== undefined && inner !== null) {
      throw invalidParamError(
        "response_format.schema",
        `and ${schemaPath} are both set: send only one of them`,
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

/** Returns the position of the client's schema in the body, for error messages. */
export function getSchemaParam({
  response_format: format,
}: {
  readonly response_format?: unknown;
}) {
  const isBare = typeof format === "object" && format !== null && "schema" in format;
  return isBare ? "response_format.schema" : `${schemaPath}.schema`;
}

function parseSchema(schema: unknown, param: string): object | boolean {
  if (typeof schema === "boolean" || isObject(schema)) return schema;
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

/** Parses the parameter `keep_alive`: a number of seconds, or a text such as `5m`. Any negative value means forever. */
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
