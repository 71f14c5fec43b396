import { AssistantError } from "../../assistant-error.ts";

/**
 * Lists of parameters of other services' APIs that this service does not support. docs/inference-api.md contains these
 * lists, and a test compares them. A parameter that is in none of the lists is ignored and named in the answer's header
 * `x-berth-ignored`, so nothing is dropped silently.
 */

/** Parameters that are accepted silently, because they would at most change the speed of the answer. */
export const ignoredParameters: readonly string[] = [
  "user",
  "metadata",
  "store",
  "service_tier",
  "prompt_cache_key",
  "prompt_cache_retention",
  "prompt_cache_options",
  "safety_identifier",
  "verbosity",
  "prediction",
  "cache_prompt",
];

export interface RefusedParameter {
  /** The advice for the client: what to send in place of the parameter. */
  readonly instead: string;
  /** Values of the parameter that have no effect. Clients send them by default, so they are accepted. */
  readonly neutral?: readonly unknown[];
}

const noEquivalentHint = "leave the parameter out: Berth has no equivalent";
const samplerHint = "leave the parameter out, and use temperature, top_p, top_k or min_p";
const schemaHint = "use response_format with type json_schema";
const lengthHint = "use max_tokens";

/** Parameters that would change the answer. They are refused unless their value has no effect. */
export const refusedParameters: Readonly<Record<string, RefusedParameter>> = {
  functions: { instead: "use tools", neutral: [[]] },
  function_call: { instead: "use tool_choice", neutral: ["auto", "none"] },
  audio: { instead: "models answer with text only" },
  web_search_options: { instead: noEquivalentHint },
  moderation: { instead: noEquivalentHint },
  grammar: { instead: schemaHint, neutral: [""] },
  json_schema: { instead: schemaHint },
  guided_json: { instead: schemaHint },
  guided_regex: { instead: schemaHint },
  guided_choice: { instead: schemaHint },
  guided_grammar: { instead: schemaHint },
  structured_outputs: { instead: schemaHint },
  format: { instead: schemaHint, neutral: [""] },
  typical_p: { instead: samplerHint, neutral: [1] },
  top_a: { instead: samplerHint, neutral: [0] },
  tfs_z: { instead: samplerHint, neutral: [1] },
  mirostat: { instead: samplerHint, neutral: [0] },
  dynatemp_range: { instead: samplerHint, neutral: [0] },
  xtc_probability: { instead: samplerHint, neutral: [0] },
  dry_multiplier: { instead: "use repeat_penalty", neutral: [0] },
  repeat_last_n: { instead: "use repeat_penalty alone", neutral: [64] },
  no_repeat_ngram_size: { instead: "use repeat_penalty", neutral: [0] },
  use_beam_search: { instead: noEquivalentHint, neutral: [false] },
  length_penalty: { instead: noEquivalentHint, neutral: [1] },
  ignore_eos: { instead: noEquivalentHint, neutral: [false] },
  min_tokens: { instead: noEquivalentHint, neutral: [0] },
  stop_token_ids: { instead: "use stop", neutral: [[]] },
  bad_words: { instead: "use logit_bias", neutral: [[]] },
  n_predict: { instead: lengthHint },
  num_predict: { instead: lengthHint },
  max_output_tokens: { instead: lengthHint },
  max_new_tokens: { instead: lengthHint },
  num_ctx: { instead: "the context length is a setting of the model" },
  options: { instead: "send the members of options at the top level of the body, next to model" },
  truncate_prompt_tokens: { instead: "a prompt that is too long is refused, never cut" },
};

/** Parameters that are refused on one route only, because other routes support them. */
export const refusedByRoute = {
  chat: {
    prompt: { instead: "use messages, or POST /v1/completions" },
    input: { instead: "use messages: this is not POST /v1/responses" },
    best_of: { instead: "use n" },
    suffix: { instead: noEquivalentHint, neutral: [""] },
    echo: { instead: "use POST /v1/completions", neutral: [false] },
  },
  completions: {
    messages: { instead: "use POST /v1/chat/completions" },
    tools: { instead: "use POST /v1/chat/completions", neutral: [[]] },
    tool_choice: { instead: "use POST /v1/chat/completions", neutral: ["none", "auto"] },
    suffix: {
      instead: "the model can only continue a text, not fill a gap before a suffix",
      neutral: [""],
    },
  },
  embeddings: {
    truncate: {
      instead: "a text that is too long is refused, never cut",
      neutral: [false, "NONE"],
    },
    input_type: { instead: "put the prefix that the model expects before each text" },
    prompt: { instead: "use input" },
    task: { instead: "put the prefix that the model expects before each text" },
  },
} as const satisfies Record<string, Readonly<Record<string, RefusedParameter>>>;

export type RouteName = keyof typeof refusedByRoute;

/** The parameters that are passed on to a remote provider, by name, with their values. */
export type PassthroughParameters = Readonly<Record<string, unknown>>;

/** The parameters that local models ignore in a request. */
export interface UnknownParameters {
  /** The names of the ignored parameters that the answer's header `x-berth-ignored` contains. */
  readonly unknown: readonly string[];
  /**
   * All parameters that local models ignore. A request to a remote provider contains them, because the provider may
   * support them.
   */
  readonly passthrough: PassthroughParameters;
}

/**
 * Returns the parameters in the body that local models ignore. Throws AssistantError `unsupported_parameter` for a
 * parameter that the route does not support and that would change the answer.
 */
export function findUnknownParameters(
  body: Readonly<Record<string, unknown>>,
  honoured: ReadonlySet<string>,
  route: RouteName,
): UnknownParameters {
  const here: Readonly<Record<string, RefusedParameter>> = refusedByRoute[route];
  const unknown: string[] = [];
  const further: [string, unknown][] = [];
  for (const [name, value] of Object.entries(body)) {
    if (honoured.has(name)) continue;
    const rule = getOwnRule(here, name) ?? getOwnRule(refusedParameters, name);
    if (rule && !isNeutral(rule, value)) throw unsupportedParamError(name, rule.instead);
    if (rule) continue;
    further.push([name, value]);
    if (!ignoredParameters.includes(name)) unknown.push(name);
  }
  return { unknown, passthrough: Object.fromEntries(further) };
}

export function unsupportedParamError(param: string, instead: string): AssistantError {
  return new AssistantError("unsupported_parameter", `${param} is not supported: ${instead}`, {
    param,
  });
}

const HEADER_NAMES_MAX = 20;

/** Encodes the names of parameters for a response header. */
export function formatIgnoredHeader(names: readonly string[]): string {
  const shown = names.slice(0, HEADER_NAMES_MAX).map((name) => encodeHeaderName(name));
  return [...shown, ...(names.length > HEADER_NAMES_MAX ? ["..."] : [])].join(", ");
}

/** Encodes a name. Unpaired surrogates, which JSON can contain but a URI cannot, are replaced with question marks. */
function encodeHeaderName(name: string): string {
  const whole = name.slice(0, 64).replaceAll(/\p{Surrogate}/gu, "?");
  return encodeURIComponent(whole).replaceAll("%5B%5D", "[]");
}

function getOwnRule(table: Readonly<Record<string, RefusedParameter>>, name: string) {
  return Object.hasOwn(table, name) ? table[name] : undefined;
}

function isNeutral(rule: RefusedParameter, value: unknown): boolean {
  const text = JSON.stringify(value);
  return (rule.neutral ?? []).some((neutral) => JSON.stringify(neutral) === text);
}
