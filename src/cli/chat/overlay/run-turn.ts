import { isAbortError } from "../../../base/errors.ts";
import type { OverlayClient, OverlayRequest } from "../../../client/bus/overlay-client.ts";
import { type FinishedStatus, parseTurnEnd } from "../../../client/bus/overlay-wire.ts";
import { ChatError } from "../../../client/rest/chat-client.ts";
import type { Cli } from "../../cli.ts";
import { sanitizeLine } from "../../companion/untrusted-text.ts";
import type { ChatBackendEvent } from "../chat-backend.ts";
import { answerQuestion, type Prompter } from "./answer-question.ts";

/** The JSON that was received for a turn, unvalidated. */
export interface TurnRecord {
  meta?: unknown;
  status?: FinishedStatus;
  detail?: unknown;
}

/** The longest wait for the companion after Ctrl-C. The companion ends the query anyway when the connection closes. */
const CANCEL_MS_MAX = 3000;

/**
 * Sends a query to the companion and yields its events; some events are questions to the user. Rejects with ChatError
 * if the turn fails, with the errors of OverlayClient, and with the signal's reason. If the caller stops early, the
 * query is cancelled.
 */
export async function* runTurn(
  cli: Cli,
  overlay: OverlayClient,
  request: OverlayRequest,
  prompter: Prompter,
  record: TurnRecord,
  signal: AbortSignal,
): AsyncGenerator<ChatBackendEvent> {
  using turn = await overlay.start(request, signal);
  let isOver = false;
  try {
    for (;;) {
      const event = await turn.next(signal);
      if (event.type === "token") yield { type: "text", text: event.text };
      else if (event.type === "started") record.meta = event.meta;
      else if (event.type === "confirmation")
        yield {
          type: "question",
          ask: () => answerQuestion(cli, overlay, turn, event.spec, prompter, signal),
        };
      else {
        isOver = true;
        record.status = event.status;
        record.detail = event.detail;
        yield toEndEvent(event.status, event.detail);
        return;
      }
    }
  } catch (error) {
    // After an error of the companion, Cancel is not called: the call would start a companion that has exited, and the
    // new companion would not know the query.
    isOver ||= !isAbortError(error);
    throw error;
  } finally {
    if (!isOver)
      await overlay.cancel(turn.queryId, AbortSignal.timeout(CANCEL_MS_MAX)).catch(() => {});
  }
}

/** Returns the last event of a turn. Throws ChatError if the turn has failed. */
function toEndEvent(status: FinishedStatus, document: unknown): ChatBackendEvent {
  const { code, message, model, finishReason, usage } = parseTurnEnd(document);
  if (status === "denied") return { type: "denied", message: describeDenial(code, message) };
  if (status === "completed")
    return { type: "end", model: model ?? null, finishReason, usage: usage ?? null };
  const text = message === "" ? `the answer was ${status}` : message;
  throw new ChatError(status === "cancelled" ? "cancelled" : code, sanitizeLine(text));
}

function describeDenial(code: string, message: string): string {
  if (code === "declined") return "you did not give the permission; the answer ends here";
  if (code === "expired") return "the question was not answered in time; the answer ends here";
  return sanitizeLine(message === "" ? `it was not allowed (${code})` : message);
}
