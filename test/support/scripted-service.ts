import type { Prompt, TokenLogprob } from "../../src/assistant/inference/runner.ts";
import type {
  AnswerEvent,
  EmbedAnswer,
  EmbedRequest,
  GenerateRequest,
  InferenceHealth,
  InferenceService,
  ModelInfo,
} from "../../src/assistant/inference/service-port.ts";

/** The script of a generation. The service itself yields `accepted` unless `isSilent` is true. */
export type Script = (
  request: GenerateRequest,
  signal: AbortSignal,
) => AsyncIterable<AnswerEvent> | Iterable<AnswerEvent>;

/** An InferenceService that runs scripts and records its requests. */
export class ScriptedService implements InferenceService {
  readonly requests: GenerateRequest[] = [];
  readonly embeds: EmbedRequest[] = [];
  /** The number of generations in progress. */
  running = 0;
  /** The number of events that were pulled from all generations together. */
  pulled = 0;
  aborted = 0;
  script: Script = (request) => says(request, ["Hello", " ", "there"]);
  embedder: (request: EmbedRequest, signal: AbortSignal) => Promise<EmbedAnswer> = (request) =>
    Promise.resolve({
      model: request.model ?? "embedder",
      ledgerSeq: 2,
      vectors: request.texts.map((text) => unitVector(text)),
      tokens: request.texts.map((text) => text.length),
    });
  healthAnswer: InferenceHealth = { engine: "scripted", ledgerOk: true };
  known: ModelInfo[] = [
    {
      id: "tiny",
      aliases: ["default"],
      createdSeconds: 1_700_000_000,
      kind: "chat",
      state: "resident",
      contextTokens: 2048,
      embeddingLength: 64,
    },
    {
      id: "hub/org/embedder:q8",
      aliases: [],
      createdSeconds: 1_700_000_001,
      kind: "embedding",
      state: "idle",
      contextTokens: undefined,
      embeddingLength: 8,
    },
  ];

  async *generate(request: GenerateRequest, signal: AbortSignal): AsyncGenerator<AnswerEvent> {
    this.requests.push(request);
    this.running += 1;
    const onAbort = () => {
      this.aborted += 1;
    };
    signal.addEventListener("abort", onAbort);
    try {
      for await (const event of this.script(request, signal)) {
        this.pulled += 1;
        yield event;
        if (signal.aborted) return;
      }
    } finally {
      signal.removeEventListener("abort", onAbort);
      this.running -= 1;
    }
  }

  async embed(request: EmbedRequest, signal: AbortSignal): Promise<EmbedAnswer> {
    this.embeds.push(request);
    return this.embedder(request, signal);
  }

  async models(): Promise<readonly ModelInfo[]> {
    return this.known;
  }

  async model(name: string): Promise<ModelInfo | undefined> {
    return this.known.find((model) => model.id === name || model.aliases.includes(name));
  }

  async health(): Promise<InferenceHealth> {
    return this.healthAnswer;
  }
}

export const accepted: AnswerEvent = { type: "accepted", model: "tiny", ledgerSeq: 7 };

export function started(prompt = 0): AnswerEvent {
  return { type: "started", prompt, promptTokens: 5, cachedTokens: 2 };
}

/** A script that yields the same words for each choice of a request, one word per token. */
export function* says(
  request: GenerateRequest,
  words: readonly string[],
  reason: "stop" | "length" = "stop",
): Generator<AnswerEvent> {
  yield accepted;
  for (const prompt of request.prompts.keys()) yield started(prompt);
  const choices = request.prompts.length * request.n;
  for (let choice = 0; choice < choices; choice += 1) {
    for (const text of words) {
      const logprobs =
        request.sampling.logprobs === undefined
          ? undefined
          : [logprobOf(text, request.sampling.logprobs)];
      yield { type: "text", choice, text, logprobs };
    }
    yield { type: "end", choice, reason, completionTokens: words.length };
  }
}

function logprobOf(text: string, top: number): TokenLogprob {
  const bytes = [...Buffer.from(text)];
  const one = { text, bytes, logprob: -0.5 };
  const others = [one, { text: "?", bytes: [63], logprob: Number.NEGATIVE_INFINITY }];
  return { ...one, top: others.slice(0, top) };
}

/** Never resolves. Rejects with the signal's reason when the signal aborts. */
export function forever(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    else signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}

/** A promise that the test resolves. */
export class Gate {
  open!: () => void;
  readonly opened = new Promise<void>((resolve) => {
    this.open = resolve;
  });
}

/** Returns the text of a prompt, for scripts that repeat it. */
export function textOfPrompt(prompt: Prompt | undefined): string {
  if (prompt?.kind === "chat") return prompt.messages.map(({ content }) => content).join("\n");
  if (prompt?.kind === "tokens") return prompt.tokens.join(",");
  return prompt?.text ?? "";
}

/** Returns a vector of length 1 with eight numbers that are not round. A text always has the same vector. */
export function unitVector(text: string): Float32Array {
  const raw = Float32Array.from({ length: 8 }, (_, index) =>
    Math.sin((text.length + 1) * (index + 1.1) + (text.codePointAt(0) ?? 0)),
  );
  const norm = Math.sqrt(raw.reduce((sum, value) => sum + value * value, 0));
  return raw.map((value) => value / norm);
}
