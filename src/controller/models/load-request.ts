import { listModelAliases } from "../../resources/model-aliases.ts";
import type { ModelSpec } from "../../resources/model-spec.ts";
import type { Resource } from "../../resources/resource.ts";
import type { LoadModelRequest } from "./assistant/port.ts";
import type { DesiredModel } from "./desired-model.ts";
import { chooseFileToLoad, type ObservedModel } from "./plan-model.ts";

/** Builds the load request for the assistant; undefined if there is no file yet. Pure. */
export function buildLoadRequest(
  desired: DesiredModel,
  observed: ObservedModel,
  source: {
    readonly spec: ModelSpec;
    readonly quantization: string | null;
    /** All Models of the store. */
    readonly all: readonly Resource<"Model">[];
  },
): LoadModelRequest | undefined {
  const file = chooseFileToLoad(desired, observed);
  if (!file) return undefined;
  const { name, contextTokens, sequences, chatTemplate, deterministic, gpu } = desired;
  const { assistant } = observed;
  const verdict = assistant.reachable ? assistant.verdict : undefined;
  // Aliases that another model at the assistant still has are not sent, because the assistant would refuse them.
  const taken = new Set(assistant.reachable ? assistant.namesOfOthers : []);
  const { spec, quantization, all } = source;
  return {
    id: name,
    aliases: listModelAliases({ name, spec, quantization }, all).filter(
      (alias) => !taken.has(alias),
    ),
    path: file.path,
    contextTokens,
    sequences,
    chatTemplate,
    deterministic,
    gpu,
    memoryBytesMax: verdict?.type === "fits" ? verdict.bytesMax : undefined,
  };
}
