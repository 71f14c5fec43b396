import { AssistantError, invalidParameterError } from "../assistant-error.ts";
import type { AskRequest } from "./port.ts";
import { checkModelHint } from "./turn-route.ts";

/** Longest prompt, which is also the limit for the history: more than any local model reads. */
const PROMPT_BYTES_MAX = 1_024 * 1_024;
const MODEL_LENGTH_MAX = 256;

/** Checks a request. Throws `invalid_request` or `payload_too_large`, with the invalid field in `param`. */
export function checkAskRequest(request: AskRequest): void {
  const { prompt, lane, modelHint, history, myStuff, scopes } = request;
  if (prompt.trim() === "") throw invalidParameterError("prompt", "is empty");
  const bytes = Buffer.byteLength(prompt);
  if (bytes > PROMPT_BYTES_MAX)
    throw new AssistantError(
      "payload_too_large",
      `prompt has ${bytes} bytes; at most ${PROMPT_BYTES_MAX} are allowed`,
      { param: "prompt" },
    );
  if (lane === "agent" && history.length > 0)
    throw invalidParameterError(
      "history_json",
      "belongs to the chat lane: set lane to chat, or leave this option out",
    );
  // Without the search, `scopes` would have no effect, although its caller expects that the answer uses only texts of
  // these scopes.
  if (scopes !== undefined && !myStuff)
    throw invalidParameterError(
      "scopes",
      "limits the search that my_stuff requests: set my_stuff too, or leave this option out",
    );
  if ((modelHint?.length ?? 0) > MODEL_LENGTH_MAX)
    throw invalidParameterError("model_hint", `may have at most ${MODEL_LENGTH_MAX} characters`);
  checkModelHint(modelHint);
}
