import type { ModelFileFacts, ModelReconcileState } from "../../resources/model-status.ts";
import type { Resource } from "../../resources/resource.ts";
import type { AssistantState } from "./assistant/port.ts";
import type { AssistantObservation } from "./assistant-watch.ts";
import { type DesiredModel, desiredModel } from "./desired-model.ts";
import type { ModelFiles } from "./files/port.ts";
import { decideMemory, type MemoryCandidate } from "./memory-decision.ts";
import type { ObservedModel } from "./plan-model.ts";

/** Identifies the inputs of `status.facts`. When the file or the settings change, the facts are read again. */
export function computeFactsKey(path: string, desired: DesiredModel): string {
  const { contextTokens = null, sequences = null, chatTemplate = null, deterministic } = desired;
  // Most models have neither a chat template nor the setting `deterministic`. Their key then contains neither, so that
  // the keys of stored facts stay valid after an update of Berth.
  const isUsual = chatTemplate === null && deterministic === undefined;
  const settings = [path, contextTokens, sequences];
  return JSON.stringify(isUsual ? settings : [...settings, chatTemplate, deterministic ?? null]);
}

/** Observes the files of a Model, its state at the assistant and the memory, for the reconciler and for dry runs. */
export async function observeModel(input: {
  readonly desired: DesiredModel;
  readonly memory: ModelReconcileState;
  readonly facts: ModelFileFacts | null;
  readonly files: Pick<ModelFiles, "find" | "storedBytes">;
  readonly observation: AssistantObservation;
  /** All Models of the store. */
  readonly all: readonly Resource<"Model">[];
}): Promise<ObservedModel> {
  const { desired, memory, files, observation } = input;
  const { pin } = memory;
  const stored = pin ? await files.find(pin.model) : undefined;
  const facts =
    stored && memory.factsOf === computeFactsKey(stored.path, desired) ? input.facts : null;
  return {
    pin,
    isPinStale: memory.refresh === "resolve" || mayHaveChanged(memory),
    stored,
    replaced: memory.replaced ? await files.find(memory.replaced) : undefined,
    storedBytes: pin ? await files.storedBytes(pin.model) : 0,
    isVerifyDue: memory.refresh !== null,
    facts,
    assistant: observation.reachable
      ? {
          reachable: true,
          model: observation.state.models.find(({ id }) => id === desired.name),
          namesOfOthers: observation.state.models
            .filter(({ id }) => id !== desired.name)
            .flatMap(({ id, aliases }) => [id, ...aliases]),
          verdict: decideMemory(
            desired.name,
            collectCandidates(input.all, observation.state, desired, facts),
            {
              bytesMax: observation.state.memoryBytesMax,
              otherBytes: sumOtherBytes(input.all, observation.state),
            },
          ),
        }
      : observation,
  };
}

/**
 * True if a download has failed and its source is not pinned to a commit. The file may then have changed at the source,
 * which would explain a download with a wrong digest.
 */
function mayHaveChanged({ pin, failure }: ModelReconcileState): boolean {
  return pin?.model.commit === null && failure?.step === "download" && failure.isAsked !== true;
}

/**
 * Returns the Models that should run and could be loaded now. For the Model `desired`, the data of this
 * observation are used, because its stored status may be older.
 */
function collectCandidates(
  all: readonly Resource<"Model">[],
  state: AssistantState,
  desired: DesiredModel,
  facts: ModelFileFacts | null,
): readonly MemoryCandidate[] {
  const others = all
    .filter(({ spec }) => spec.running === true)
    .filter(({ metadata }) => metadata.name !== desired.name && !metadata.deletionTimestamp)
    .map((resource) => ({
      desired: desiredModel(resource),
      facts: resource.status?.facts ?? null,
    }));
  return [...others, { desired, facts }].flatMap(({ desired: one, facts: known }) => {
    if (!one.running) return [];
    const model = state.models.find(({ id, pinned }) => id === one.name && pinned);
    // A model that is being loaded already uses memory, but the amount is not known yet, so the smallest possible
    // amount is assumed.
    const residentBytes =
      model?.state === "loading" ? (known?.memoryBytes.least ?? 0) : (model?.memoryBytes ?? null);
    if (known === null && residentBytes === null) return [];
    return [
      {
        name: one.name,
        startedAt: one.startedAt,
        createdAt: one.createdAt,
        residentBytes,
        leastBytes: known?.memoryBytes.least ?? residentBytes ?? 0,
      },
    ];
  });
}

/**
 * Sums the memory of pinned models that are not Models of the store. Models that the assistant loaded on demand do not
 * count, because they can be evicted.
 */
function sumOtherBytes(all: readonly Resource<"Model">[], state: AssistantState): number {
  const names = new Set(all.map(({ metadata }) => metadata.name));
  return state.models
    .filter(({ id, pinned }) => pinned && !names.has(id))
    .reduce((sum, { memoryBytes }) => sum + (memoryBytes ?? 0), 0);
}
