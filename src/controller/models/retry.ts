import type { ModelMemory } from "../../resources/model-status.ts";
import type { DesiredModel } from "./desired.ts";

/**
 * A person's wish to try again, obeyed once: what failed is forgotten, and of a model that is known the
 * source is asked and everything compared anew.
 */
export function obeyRetry(memory: ModelMemory, { retriedAt }: DesiredModel): ModelMemory {
  if (retriedAt === null || retriedAt === memory.retriedAt) return memory;
  return {
    ...memory,
    retriedAt,
    refresh: memory.pin ? "resolve" : null,
    stalled: null,
    failure: null,
  };
}
