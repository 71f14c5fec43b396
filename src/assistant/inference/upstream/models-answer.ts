import type { ModelInfo } from "../service-port.ts";
import { countMember, listMember, textMember } from "../wire/wire-value.ts";
import { notUnderstood } from "./wire-error.ts";

const kinds = ["chat", "completion", "embedding"] as const;
const states = ["resident", "loading", "idle", "failed"] as const;

/** The answer of GET /v1/models. Throws AssistantError `engine_failed` for what is no list of models. */
export function modelsOf(body: unknown): ModelInfo[] {
  const data = listMember(body, "data");
  if (!data) throw notUnderstood("a list of models without data");
  return data.map((model) => modelOf(model));
}

function modelOf(model: unknown): ModelInfo {
  const id = textMember(model, "id");
  if (id === undefined || id === "") throw notUnderstood("a model without an id");
  const [kind, state] = [textMember(model, "kind"), textMember(model, "state")];
  return {
    id,
    aliases: (listMember(model, "aliases") ?? []).filter((name) => typeof name === "string"),
    createdSeconds: countMember(model, "created") ?? 0,
    kind: kinds.find((known) => known === kind) ?? "chat",
    state: states.find((known) => known === state) ?? "idle",
    failure: textMember(model, "error"),
    contextTokens: countMember(model, "context_length"),
    embeddingLength: countMember(model, "embedding_length"),
  };
}
