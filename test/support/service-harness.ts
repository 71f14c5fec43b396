import { KnownModels } from "../../src/assistant/inference/models/known-models.ts";
import { ModelFactsCache } from "../../src/assistant/inference/models/model-facts-cache.ts";
import { Residency } from "../../src/assistant/inference/models/residency.ts";
import {
  AnswerPlanner,
  type SchemaCompiler,
} from "../../src/assistant/inference/service/answer-plan.ts";
import { LocalInferenceService } from "../../src/assistant/inference/service/inference-service.ts";
import { ModelCapacity } from "../../src/assistant/inference/service/model-capacity.ts";
import type { AnswerEvent, GenerateRequest } from "../../src/assistant/inference/service-port.ts";
import { silentLogger } from "../../src/base/logger.ts";
import { FakeLedger } from "./fake-ledger.ts";
import { ScriptedEngine, type ScriptedEngineOptions } from "./scripted-engine.ts";
import { VirtualClock } from "./virtual-clock.ts";

export interface ServiceHarnessOptions extends Omit<ScriptedEngineOptions, "clock"> {
  readonly queueMax?: number;
  readonly requestTimeoutMs?: number;
  readonly schemas?: SchemaCompiler;
  readonly models?: readonly string[];
}

/** Creates a `LocalInferenceService` with a scripted engine, a fake ledger and a virtual clock. */
export async function createServiceHarness(options: ServiceHarnessOptions = {}) {
  const clock = new VirtualClock();
  const engine = new ScriptedEngine({ ...options, clock });
  const known = new KnownModels({ folder: undefined, aliases: new Map([["other", "m"]]) });
  // The models have no files, because the virtual clock does not wait for accesses to the disk.
  for (const id of options.models ?? ["m"]) await known.register({ id, path: "", isPinned: false });
  const facts = new ModelFactsCache({ engine });
  const residency = new Residency({
    engine,
    known,
    facts,
    memoryBytesMax: 1_000_000_000,
    keepAliveMs: 60_000,
    clock,
    logger: silentLogger,
  });
  const ledger = new FakeLedger();
  const service = new LocalInferenceService({
    engine,
    residency,
    facts,
    planner: new AnswerPlanner({ schemas: options.schemas ?? noSchemas }),
    capacity: new ModelCapacity({ queueMax: options.queueMax ?? 8 }),
    ledger,
    ledgerOk: () => ledger.mode === "ok",
    sequences: 4,
    requestTimeoutMs: options.requestTimeoutMs ?? 3_600_000,
    clock,
    random: () => 0.5,
  });
  return {
    clock,
    engine,
    known,
    residency,
    ledger,
    service,
    [Symbol.asyncDispose]: () => residency[Symbol.asyncDispose](),
  };
}

const noSchemas: SchemaCompiler = {
  compileLayout: () => Promise.reject(new Error("no schemas here")),
  validate: () => Promise.reject(new Error("no schemas here")),
};

export const plainRequest: GenerateRequest = {
  model: undefined,
  prompts: [{ kind: "text", text: "hello" }],
  n: 1,
  sampling: { temperature: 0 },
  maxTokens: undefined,
  stop: [],
  priority: "interactive",
  guide: { kind: "none" },
  toolChoice: { kind: "auto" },
  parallelToolCalls: true,
  isStreamed: true,
  keepAliveMs: undefined,
};

export async function collect<T>(events: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const event of events) all.push(event);
  return all;
}

/** Returns the text of one choice. */
export function joinText(events: readonly AnswerEvent[], choice = 0): string {
  return events
    .map((event) => (event.type === "text" && event.choice === choice ? event.text : ""))
    .join("");
}
