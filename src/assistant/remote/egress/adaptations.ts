import { AssistantError } from "../../assistant-error.ts";

type Body = Readonly<Record<string, unknown>>;

interface Adaptation {
  /** The name of the member of the request body that some providers refuse. */
  readonly name: string;
  /** Matches the error message of a provider that refuses this member of the request body. */
  readonly refusal: RegExp;
  readonly adapt: (body: Body) => Body;
}

/**
 * Known differences between providers, recognised by their error messages: OpenAI's reasoning models have another name
 * for max_tokens, some older servers do not know stream_options, and strict servers refuse repeat_penalty, which is
 * sent in addition to repetition_penalty.
 */
const adaptations: readonly Adaptation[] = [
  {
    name: "max_tokens",
    refusal: /\bmax_completion_tokens\b/,
    adapt: ({ max_tokens: limit, ...rest }) => ({ ...rest, max_completion_tokens: limit }),
  },
  { name: "stream_options", refusal: /\bstream_options\b/, adapt: removeField("stream_options") },
  { name: "repeat_penalty", refusal: /\brepeat_penalty\b/, adapt: removeField("repeat_penalty") },
];

/** A request body that is adapted when its provider refuses it. Each adaptation is applied at most once. */
export class AdaptedBody {
  readonly #learned: LearnedAdaptations;
  readonly #model: string;
  readonly #applied = new Set<Adaptation>();
  #body: Body;
  #text: string | undefined;

  /**
   * `model` is the model's key in `learned`. The adaptations of the body that `learned` has for this model are applied
   * at once.
   */
  constructor(body: Body, learned: LearnedAdaptations, model: string) {
    this.#learned = learned;
    this.#model = model;
    this.#body = body;
    for (const adaptation of learned.get(model)) this.#apply(adaptation);
  }

  /** The body with all adaptations applied so far. */
  get value(): Body {
    return this.#body;
  }

  get bytes(): number {
    this.#text ??= JSON.stringify(this.#body);
    return Buffer.byteLength(this.#text);
  }

  /** Adapts the body to a provider's error. Returns true if the body has changed; a retry may then succeed. */
  tryAdapt(error: unknown): boolean {
    if (!(error instanceof AssistantError) || error.code !== "invalid_request") return false;
    const found = adaptations.find(
      (adaptation) => !this.#applied.has(adaptation) && adaptation.refusal.test(error.message),
    );
    return found !== undefined && this.#apply(found);
  }

  /**
   * Remembers the adaptations of a body that the provider has accepted, so that the next request to this model starts
   * with them.
   */
  remember(): void {
    if (this.#applied.size > 0) this.#learned.set(this.#model, [...this.#applied]);
  }

  #apply(adaptation: Adaptation): boolean {
    if (this.#body[adaptation.name] === undefined) return false;
    this.#applied.add(adaptation);
    this.#body = adaptation.adapt(this.#body);
    this.#text = undefined;
    return true;
  }
}

/**
 * The maximum number of models for which adaptations of request bodies are remembered. Beyond this number, the model
 * whose adaptations were stored first is forgotten, and its adaptations must be learned again.
 */
const LEARNED_MAX = 256;

/** The adaptations that each model needs, remembered for the lifetime of this process. */
export class LearnedAdaptations {
  readonly #known = new Map<string, readonly Adaptation[]>();

  get(model: string): readonly Adaptation[] {
    return this.#known.get(model) ?? [];
  }

  set(model: string, learned: readonly Adaptation[]): void {
    const all = new Set([...this.get(model), ...learned]);
    this.#known.delete(model);
    this.#known.set(model, [...all]);
    const [oldest] = this.#known.keys();
    if (this.#known.size > LEARNED_MAX && oldest !== undefined) this.#known.delete(oldest);
  }
}

function removeField(name: string): Adaptation["adapt"] {
  return (body) => Object.fromEntries(Object.entries(body).filter(([key]) => key !== name));
}
