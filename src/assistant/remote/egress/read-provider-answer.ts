import type { Clock } from "../../../base/clock.ts";
import { createEventDecoder } from "../../../base/openai-wire/event-decoder.ts";
import { AssistantError } from "../../assistant-error.ts";
import type { AnswerEvent } from "../../inference/service-port.ts";
import type { ProviderAnswer } from "../provider-http/port.ts";
import { peekBody, readWholeText } from "./body-text.ts";
import type { ProviderAnswerReader } from "./provider-answer-reader.ts";
import type { ProviderErrors } from "./provider-errors.ts";
import { DOCUMENT_BYTES_MAX } from "./provider-limits.ts";

/** The longest time to wait for the token counts and for `[DONE]` after every choice has ended. */
const COUNTS_MS_MAX = 2_000;
/**
 * The longest time to wait for the end of the body after `[DONE]`. The connection can be reused only if the body ends.
 */
const END_MS_MAX = 250;

interface ProviderAnswerOptions {
  readonly reader: ProviderAnswerReader;
  readonly errors: ProviderErrors;
  readonly clock: Clock;
  /** Aborts the answer, so that a pending read of its body settles. */
  readonly abort: () => void;
}

/**
 * Yields the events of an answer as they arrive. An answer counts as complete once every choice has ended, even if the
 * provider then stays silent or the connection is lost. Rejects with the errors of the answer's body, and with the
 * error that the provider reports.
 */
export async function* readProviderAnswer(
  answer: ProviderAnswer,
  { reader, errors, clock, abort }: ProviderAnswerOptions,
): AsyncGenerator<AnswerEvent, void, void> {
  const { first, body, abandon } = await peekBody(answer.body());
  if (first === "{" || first === "[") {
    const text = await readWholeText(body, DOCUMENT_BYTES_MAX);
    if (text === undefined)
      throw errors.malformedResponse("the answer is a document of more than 4 MiB");
    yield* reader.document(text);
    return;
  }
  if (first === "<") {
    await abandon();
    throw errors.malformedResponse("the answer is a web page");
  }
  const decoder = createEventDecoder(errors);
  let deadlineMs: number | undefined;
  try {
    for (;;) {
      const pull = body.next();
      const next =
        deadlineMs === undefined
          ? await pull
          : await pullWithin(pull, Math.max(0, deadlineMs - clock.now()), clock);
      if (next === undefined || next.done === true) break;
      const events = decoder.push(next.value);
      for (const { data } of events) yield* reader.read(data);
      if (events.length > 0 && reader.hasEnded)
        deadlineMs = clock.now() + (reader.isDone ? END_MS_MAX : COUNTS_MS_MAX);
    }
  } finally {
    abort();
    await body.return();
  }
  yield* reader.finish();
}

/**
 * Resolves to the next piece of the body, or to undefined if nothing arrives in time or the connection is lost
 * meanwhile.
 */
async function pullWithin<T>(
  pull: Promise<T>,
  limitMs: number,
  clock: Clock,
): Promise<T | undefined> {
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
