import type { Clock } from "../../../base/clock.ts";
import { AssistantError } from "../../assistant-error.ts";
import type { AnswerEvent } from "../../inference/service-port.ts";
import { readSseData } from "../../inference/wire/sse-data.ts";
import type { ProviderAnswer } from "../provider-http/port.ts";
import { peekBody, readWholeText } from "./body-text.ts";
import type { ProviderAnswerReader } from "./provider-answer-reader.ts";
import type { ProviderErrors } from "./provider-errors.ts";
import { DOCUMENT_BYTES_MAX } from "./provider-limits.ts";

/** How long counts, and the word that it is over, are waited for once every choice has had its end. */
const COUNTS_MS_MAX = 2_000;
/** And the body's own end behind that word, with which the connection can be kept. */
const END_MS_MAX = 250;

interface ProviderAnswerOptions {
  readonly reader: ProviderAnswerReader;
  readonly errors: ProviderErrors;
  readonly clock: Clock;
  /** Ends the answer, so that what is awaited of it settles. */
  readonly abort: () => void;
}

/**
 * The events of an answer, as they come. A provider that ends every choice and then says no more, or is cut off,
 * has answered. Rejects as the answer's body does, and with what the provider says went wrong.
 */
export async function* readProviderAnswer(
  answer: ProviderAnswer,
  { reader, errors: words, clock, abort: leave }: ProviderAnswerOptions,
): AsyncGenerator<AnswerEvent, void, void> {
  const { first, body, abandon } = await peekBody(answer.body());
  if (first === "{" || first === "[") {
    const text = await readWholeText(body, DOCUMENT_BYTES_MAX);
    if (text === undefined) throw words.malformedResponse("a document of more than 4 MiB");
    yield* reader.document(text);
    return;
  }
  if (first === "<") {
    await abandon();
    throw words.malformedResponse("a page");
  }
  const data = readSseData(body, words);
  try {
    for (;;) {
      const pull = data.next();
      const limitMs = reader.isDone ? END_MS_MAX : COUNTS_MS_MAX;
      const result = reader.hasEnded ? await within(pull, limitMs, clock) : await pull;
      if (result === undefined || result.done === true) break;
      yield* reader.read(result.value);
    }
  } finally {
    leave();
    await data.return();
  }
  yield* reader.finish();
}

/** Undefined where nothing comes in time, or the connection is lost by then. */
async function within<T>(pull: Promise<T>, limitMs: number, clock: Clock): Promise<T | undefined> {
  let cancel: (() => void) | undefined;
  const late = new Promise<undefined>((resolve) => {
    cancel = clock.setTimer(limitMs, () => resolve(undefined));
  });
  try {
    return await Promise.race([pull, late]);
  } catch (error) {
    if (error instanceof AssistantError && (error.code === "cut_off" || error.code === "timeout"))
      return undefined;
    throw error;
  } finally {
    cancel?.();
  }
}
