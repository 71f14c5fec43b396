import { join } from "node:path";
import { isMusl } from "../../base/c-library.ts";
import type { Cleanup } from "../../base/cleanup.ts";
import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/logger.ts";
import type { AssistantConfig } from "../../config/assistant-config.ts";
import { chooseEngine } from "../inference/engine-choice.ts";
import type { InferenceEngine } from "../inference/inference-engine.ts";
import { LlamaEngine } from "../inference/llama/llama-engine.ts";
import { KnownModels } from "../inference/models/known-models.ts";
import { ModelFactsCache } from "../inference/models/model-facts-cache.ts";
import {
  type ChatTemplateSetting,
  readChatTemplate,
} from "../inference/models/read-chat-template.ts";
import { Residency } from "../inference/models/residency.ts";
import { GrammarCompiler } from "../inference/schema-grammar/grammar-compiler.ts";
import { AnswerPlanner } from "../inference/service/answer-plan.ts";
import { LocalInferenceService } from "../inference/service/inference-service.ts";
import { ModelCapacity } from "../inference/service/model-capacity.ts";
import { StubEngine } from "../inference/stub/stub-engine.ts";
import type { OpenLedger } from "../ledger/ledger.ts";
import type { Ledger } from "../ledger/port.ts";

/**
 * An inference engine that runs in this daemon, with the registry, caches and service that the HTTP and bus interfaces
 * use.
 */
export interface LocalInference {
  readonly service: LocalInferenceService;
  readonly engine: InferenceEngine;
  readonly known: KnownModels;
  readonly facts: ModelFactsCache;
  readonly residency: Residency;
}

/**
 * Builds the local inference stack and registers its parts with `cleanup` for disposal. Throws `model_unusable` if a
 * configured model cannot be loaded, and `engine_failed` if the configured engine does not run on this system.
 */
export async function openLocalInference(
  config: AssistantConfig,
  dependencies: {
    readonly ledger: Ledger & { readonly state: Pick<OpenLedger["state"], "ok"> };
    readonly clock: Clock;
    readonly logger: Logger;
  },
  cleanup: Cleanup,
): Promise<LocalInference> {
  const { ledger, clock, logger } = dependencies;
  const engine = cleanup.use(createEngine(config, clock, logger));
  const known = new KnownModels({
    folder: engine.name === "stub" ? undefined : join(config.dataDir, "models"),
    aliases: config.aliases,
    contextTokens: config.contextTokens,
    sequences: config.sequences,
    isDeterministic: config.isDeterministic,
  });
  const facts = new ModelFactsCache({ engine });
  await registerConfiguredModels(config, engine, known, facts);
  const residency = cleanup.use(
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
  const schemas = cleanup.use(new GrammarCompiler({ logger }));
  const service = new LocalInferenceService({
    engine,
    residency,
    facts,
    planner: new AnswerPlanner({ schemas }),
    capacity: new ModelCapacity({ queueMax: config.queueMax }),
    ledger,
    ledgerOk: () => ledger.state.ok,
    sequences: config.sequences ?? 8,
    requestTimeoutMs: config.requestTimeoutMs,
    clock,
    random: Math.random,
  });
  return { service, engine, known, facts, residency };
}

function createEngine(config: AssistantConfig, clock: Clock, logger: Logger): InferenceEngine {
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

/**
 * Registers the models that the configuration names. Throws `model_unusable` if one of them cannot be loaded. Models
 * that are only in the models folder are not checked here.
 */
async function registerConfiguredModels(
  config: AssistantConfig,
  engine: InferenceEngine,
  known: KnownModels,
  facts: ModelFactsCache,
): Promise<void> {
  if (engine.name === "stub") await known.register({ id: "stub", path: "", isPinned: true });
  for (const { id, path } of config.models) {
    const file = path ?? (await known.find(id)).path;
    const chatTemplate = await readConfiguredTemplate(config, id);
    await known.register({ id, path: file, isPinned: true, chatTemplate });
    await facts.get(await known.find(id));
  }
  for (const { model } of config.chatTemplates) {
    if (model === undefined || config.models.some(({ id }) => id === model)) continue;
    const { id, path } = await known.find(model);
    const chatTemplate = await readConfiguredTemplate(config, model);
    await known.register({ id, path, isPinned: false, chatTemplate });
  }
}

/** Returns the chat template that is configured for this model, else the one for all models, else undefined. */
async function readConfiguredTemplate(
  { chatTemplates }: AssistantConfig,
  id: string,
): Promise<ChatTemplateSetting | undefined> {
  const configured =
    chatTemplates.findLast(({ model }) => model === id) ??
    chatTemplates.findLast(({ model }) => model === undefined);
  return configured && (await readChatTemplate(configured.template));
}
