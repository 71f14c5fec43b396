import { AssistantError } from "../../assistant-error.ts";

type Body = Readonly<Record<string, unknown>>;

interface Adaptation {
  /** Of the body: what is refused. */
  readonly name: string;
  /** How a provider says so. */
  readonly refusal: RegExp;
  readonly adapt: (body: Body) => Body;
}

/**
 * Where providers differ in what they take, and say so: OpenAI's reasoning models have another name for
 * max_tokens, some older servers no stream_options, and strict ones refuse the second name of a penalty.
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

/** A body that is changed where its provider refuses it, each thing once. */
export class AdaptedBody {
  readonly #learned: LearnedAdaptations;
  readonly #model: string;
  readonly #applied = new Set<Adaptation>();
  #body: Body;
  #text: string | undefined;

  /** `model`: of which what was learned is remembered. */
  constructor(body: Body, learned: LearnedAdaptations, model: string) {
    this.#learned = learned;
    this.#model = model;
    this.#body = body;
    for (const adaptation of learned.get(model)) this.#apply(adaptation);
  }

  /** As it is sent. */
  get value(): Body {
    return this.#body;
  }

  get bytes(): number {
    this.#text ??= JSON.stringify(this.#body);
    return Buffer.byteLength(this.#text);
  }

  /** Whether it is another one now, which may be taken. */
  tryAdapt(error: unknown): boolean {
    if (!(error instanceof AssistantError) || error.code !== "invalid_request") return false;
    const found = adaptations.find(
      (adaptation) => !this.#applied.has(adaptation) && adaptation.refusal.test(error.message),
    );
    return found !== undefined && this.#apply(found);
  }

  /** It was taken: the next request to this model begins with it. */
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

/** More models are not talked to at a time. */
const LEARNED_MAX = 256;

/** What models have refused, until the end of this process. */
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
