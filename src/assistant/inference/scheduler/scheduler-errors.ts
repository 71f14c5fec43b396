import { AssistantError } from "../../assistant-error.ts";
import type { Prompt } from "../runner.ts";

export function shuttingDownError(): AssistantError {
  return new AssistantError(
    "shutting_down",
    "The model is being unloaded; try again in a moment.",
    { retryAfterSeconds: 1 },
  );
}

/** Creates the error for a failed engine. The engine's own message is only in the cause, because it may name files. */
export function engineFailedError(cause: unknown): AssistantError {
  return new AssistantError("engine_failed", "The engine failed during this request; try again.", {
    cause,
  });
}

export function noSequencesError(): AssistantError {
  return new AssistantError(
    "model_unsuitable",
    "This model only creates embeddings; use another model to generate text.",
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
    `The prompt has ${promptTokens} tokens, but the context holds ${contextTokens}, including at least 1 for the answer; shorten the prompt, or load the model with a longer context.`,
    { param: getPromptParam(prompt) },
  );
}

function getPromptParam(prompt: Prompt): string {
  return prompt.kind === "chat" ? "messages" : "prompt";
}
