import { AssistantError } from "../../assistant-error.ts";
import type { ModelFacts } from "../inference-engine.ts";
import type { KnownModel } from "./known-models.ts";

export interface DefaultModelCandidate {
  readonly model: KnownModel;
  /** The kind of the model; undefined if its file cannot be read. */
  readonly kind: ModelFacts["kind"] | undefined;
  /** The time of the last use, in epoch milliseconds; 0 if the model is not resident. */
  readonly lastUsed: number;
}

/** The use of a model in a request: an answer to messages, the continuation of a text, or vectors. */
export type ModelUse = "chat" | "generate" | "embed";

/**
 * Chooses the model for a request that names none. Prefers a model with a readable file, then a model that generates
 * text, for a chat one with a chat template, then a resident model, then a pinned model, and then the most recently
 * used model. Throws `no_model`.
 */
export function chooseDefaultModel(
  candidates: readonly DefaultModelCandidate[],
  use: ModelUse,
): KnownModel {
  const [best] = candidates
    .filter(({ kind }) => use === "embed" || kind !== "embedding")
    .toSorted(
      (one, other) =>
        Number(one.kind === undefined) - Number(other.kind === undefined) ||
        Number(other.kind === "embedding") - Number(one.kind === "embedding") ||
        (use === "chat"
          ? Number(one.kind === "completion") - Number(other.kind === "completion")
          : 0) ||
        Number(other.lastUsed > 0) - Number(one.lastUsed > 0) ||
        Number(other.model.isPinned) - Number(one.model.isPinned) ||
        other.lastUsed - one.lastUsed,
    );
  if (best) return best.model;
  throw new AssistantError(
    "no_model",
    `there is no model for this request. Start the assistant with one: berth assistant --system --model FILE.gguf; or put a GGUF file into the folder "models" of the data directory`,
  );
}
