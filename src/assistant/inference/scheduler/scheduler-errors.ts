import { AssistantError } from "../../assistant-error.ts";
import type { Prompt } from "../runner.ts";

export function shuttingDownError(): AssistantError {
  return new AssistantError(
    "shutting_down",
    "The model is being unloaded; try again in a moment.",
    { retryAfterSeconds: 1 },
  );
}

/** What the engine itself says stays in the cause: it may name files. */
export function engineFailedError(cause: unknown): AssistantError {
  return new AssistantError(
    "engine_failed",
    "The engine failed in the middle of this request; try again.",
    { cause },
  );
}

export function noSequencesError(): AssistantError {
  return new AssistantError(
    "model_unsuitable",
    "This model only embeds; ask another one for an answer.",
  );
}

export function emptyPromptError(prompt: Prompt): AssistantError {
  return new AssistantError("invalid_request", "The prompt is empty; write at least one token.", {
    param: getPromptParam(prompt),
  });
}

export function contextExceededError(
  prompt: Prompt,
  promptTokens: number,
  contextTokens: number,
): AssistantError {
  return new AssistantError(
    "context_length_exceeded",
    `The prompt has ${promptTokens} tokens, and with at least 1 for the answer the context holds ${contextTokens}; shorten it, or load the model with a longer context.`,
    { param: getPromptParam(prompt) },
  );
}

function getPromptParam(prompt: Prompt): string {
  return prompt.kind === "chat" ? "messages" : "prompt";
}
