import type { LoadedModel } from "../../src/assistant/inference/inference-engine.ts";
import type { TokenLogprob } from "../../src/assistant/inference/runner.ts";
import type { Dice } from "../support/random.ts";
import { createTextJob } from "./llama-engine-setup.ts";

const WORDS =
  "a river runs to the old town where seven people name every stone and tell one story about light water tea".split(
    " ",
  );
const LOGPROBS = 5;

/** A request of a client, and the part of the answer that the client read. */
export interface Answered {
  readonly prompt: string;
  readonly promptTokens: number;
  readonly temperature: number;
  readonly maxTokens: number;
  /** True if the prompt contains an earlier answer, so that its conversation goes on. */
  readonly goesOn: boolean;
  readonly text: string;
  /** One entry for each token of the answer, up to the token at which the client left. */
  readonly logprobs: readonly TokenLogprob[];
  readonly hasLeft: boolean;
}

export interface MixedWorkOptions {
  readonly dice: Dice;
  readonly clients: number;
  readonly wordsMax: number;
  readonly answerTokensMax: number;
  /** Called before each request. Returns false when the clients must stop. */
  readonly goesOn: () => boolean;
  readonly onAnswered: (answered: Answered) => Promise<void> | void;
}

/**
 * Lets clients ask one model at the same time: new prompts, prompts that share their beginning with an earlier one,
 * equal prompts, and conversations that go on; interactively and in the background. Some clients leave early.
 */
export async function runMixedWork(model: LoadedModel, options: MixedWorkOptions): Promise<void> {
  const earlier: Answered[] = [];
  const runClient = async (): Promise<void> => {
    while (options.goesOn()) {
      const answered = await ask(model, choosePrompt(options, earlier), options);
      earlier.push(answered);
      if (earlier.length > 40) earlier.shift();
      await options.onAnswered(answered);
    }
  };
  await Promise.all(Array.from({ length: options.clients }, runClient));
}

type Prompt = Pick<Answered, "prompt" | "goesOn">;

function choosePrompt({ dice, wordsMax }: MixedWorkOptions, earlier: readonly Answered[]): Prompt {
  const words = (most: number): string =>
    Array.from({ length: dice.between(1, most) }, () => dice.pick(WORDS)).join(" ");
  const fresh = { prompt: words(dice.chance(0.4) ? 12 : wordsMax), goesOn: false };
  if (earlier.length === 0 || dice.chance(0.3)) return fresh;
  const { prompt, goesOn, text } = dice.pick(earlier);
  if (dice.chance(0.2)) return { prompt, goesOn };
  if (prompt.split(" ").length > wordsMax * 0.8) return fresh;
  const more = words(dice.chance(0.6) ? 12 : Math.floor(wordsMax / 4));
  if (dice.chance(0.4)) return { prompt: `${prompt}${text} ${more}`, goesOn: true };
  // The earlier prompt is always shortened. The new text after a whole prompt could begin like its answer, and would
  // then continue the conversation.
  const head = prompt.slice(0, dice.between(0, prompt.length - 1));
  return { prompt: `${head}, ${more}`, goesOn };
}

async function ask(
  model: LoadedModel,
  { prompt, goesOn }: Prompt,
  { dice, answerTokensMax }: MixedWorkOptions,
): Promise<Answered> {
  const temperature = dice.chance(0.5) ? 0 : 0.8;
  const maxTokens = dice.between(1, answerTokensMax);
  // Some clients leave while the prompt waits or is evaluated, others after some tokens of the answer.
  const leavesAfterMs = dice.chance(0.1) ? dice.between(0, 30) : undefined;
  const leavesAt = dice.chance(0.2) ? dice.between(1, maxTokens) : undefined;
  const leaving = new AbortController();
  const leave = () => leaving.abort(new Error("the client has left"));
  const timer = leavesAfterMs === undefined ? undefined : setTimeout(leave, leavesAfterMs);
  const job = createTextJob(
    prompt,
    { maxTokens, priority: dice.chance(0.4) ? "background" : "interactive" },
    { temperature, logprobs: LOGPROBS },
  );
  const logprobs: TokenLogprob[] = [];
  let promptTokens = 0;
  let text = "";
  let hasLeft = true;
  try {
    for await (const event of model.generate(job, leaving.signal)) {
      if (event.type === "started") promptTokens = event.promptTokens;
      else if (event.type === "end") hasLeft = false;
      else {
        text += event.text;
        logprobs.push(...(event.logprobs ?? []));
        if (leavesAt !== undefined && logprobs.length >= leavesAt) leave();
      }
    }
  } catch (error) {
    if (!leaving.signal.aborted) throw error;
  }
  clearTimeout(timer);
  return { prompt, promptTokens, temperature, maxTokens, goesOn, text, logprobs, hasLeft };
}
