import { join } from "node:path";
import { isMusl } from "../base/c-library.ts";
import type { Cleanup } from "../base/cleanup.ts";
import type { Clock } from "../base/clock.ts";
import type { Logger } from "../base/logger.ts";
import type { AssistantConfig } from "../config/assistant-config.ts";
import type { Engine } from "./inference/engine.ts";
import { chooseEngine } from "./inference/engine-choice.ts";
import { LlamaEngine } from "./inference/llama/llama-engine.ts";
import { KnownModels } from "./inference/models/known-models.ts";
import { ModelFactsCache } from "./inference/models/model-facts.ts";
import { Residency } from "./inference/models/residency.ts";
import { GrammarCompiler } from "./inference/schema-grammar/grammar-compiler.ts";
import { Admission } from "./inference/service/admission.ts";
import { AnswerPlanner } from "./inference/service/answer-plan.ts";
import { Inference } from "./inference/service/service.ts";
import { StubEngine } from "./inference/stub/stub-engine.ts";
import type { OpenLedger } from "./ledger/ledger.ts";

/** An engine of this daemon's own, and everything between it and a transport. */
export interface LocalInference {
  readonly service: Inference;
  readonly engine: Engine;
  readonly known: KnownModels;
  readonly facts: ModelFactsCache;
  readonly residency: Residency;
}

/**
 * Builds it; what has to end again goes to `starting`. Throws `model_unusable` where a model that was named
 * cannot be one, and `engine_failed` where the engine that was named does not run on this system.
 */
export async function openLocalInference(
  config: AssistantConfig,
  parts: { readonly ledger: OpenLedger; readonly clock: Clock; readonly logger: Logger },
  starting: Cleanup,
): Promise<LocalInference> {
  const { ledger, clock, logger } = parts;
  const engine = starting.use(engineOf(config, clock, logger));
  const known = new KnownModels({
    folder: engine.name === "stub" ? undefined : join(config.dataDir, "models"),
    aliases: config.aliases,
    contextTokens: config.contextTokens,
    sequences: config.sequences,
  });
  const facts = new ModelFactsCache({ engine });
  await registerConfigured(config, engine, known, facts);
  const residency = starting.use(
    new Residency({
      engine,
      known,
      facts,
      memoryBytesMax: config.memoryBytesMax,
      keepAliveMs: config.keepAliveMs,
      clock,
      logger,
    }),
  );
  const schemas = starting.use(new GrammarCompiler({ logger }));
  const service = new Inference({
    engine,
    residency,
    facts,
    planner: new AnswerPlanner({ schemas }),
    admission: new Admission({ queueMax: config.queueMax }),
    ledger,
    ledgerOk: () => ledger.state.ok,
    sequences: config.sequences ?? 8,
    requestTimeoutMs: config.requestTimeoutMs,
    clock,
    random: Math.random,
  });
  return { service, engine, known, facts, residency };
}

function engineOf(config: AssistantConfig, clock: Clock, logger: Logger): Engine {
  const { engine, notice } = chooseEngine(config.engine, { isMusl: isMusl() });
  if (notice !== undefined) logger.warn({ engine }, notice);
  if (engine === "stub") return new StubEngine({ clock });
  return new LlamaEngine({
    clock,
    logger,
    threads: config.threads,
    cacheDir: join(config.dataDir, "cache"),
  });
}

/** Throws `model_unusable` where a model that was named cannot be one: nobody asked for the others. */
async function registerConfigured(
  config: AssistantConfig,
  engine: Engine,
  known: KnownModels,
  facts: ModelFactsCache,
): Promise<void> {
  if (engine.name === "stub") await known.register({ id: "stub", path: "", isPinned: true });
  for (const { id, path } of config.models) {
    const file = path ?? (await known.find(id)).path;
    await known.register({ id, path: file, isPinned: true });
    await facts.of(await known.find(id));
  }
}
