import type { ModelSpec } from "../../resources/model.ts";
import { modelAliases } from "../../resources/model-aliases.ts";
import type { Resource } from "../../resources/resource.ts";
import type { LoadModel } from "./assistant/port.ts";
import type { DesiredModel } from "./desired.ts";
import { fileToLoad, type ObservedModel } from "./plan.ts";

/** What the assistant is asked to load; undefined where there is no file yet. Pure. */
export function loadOf(
  desired: DesiredModel,
  observed: ObservedModel,
  source: {
    readonly spec: ModelSpec;
    readonly quantization: string | null;
    /** Every Model of the store. */
    readonly all: readonly Resource<"Model">[];
  },
): LoadModel | undefined {
  const file = fileToLoad(desired, observed);
  if (!file) return undefined;
  const { name, contextTokens, sequences, gpu } = desired;
  const { assistant } = observed;
  const verdict = assistant.reachable ? assistant.verdict : undefined;
  // A name that another one still has, from before it was edited, would be refused.
  const taken = new Set(assistant.reachable ? assistant.namesOfOthers : []);
  const { spec, quantization, all } = source;
  return {
    id: name,
    aliases: modelAliases({ name, spec, quantization }, all).filter((alias) => !taken.has(alias)),
    path: file.path,
    contextTokens,
    sequences,
    gpu,
    memoryBytesMax: verdict?.type === "fits" ? verdict.bytesMax : undefined,
  };
}
