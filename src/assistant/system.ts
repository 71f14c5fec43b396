import { EventEmitter, once } from "node:events";
import { chmod, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { collectDefaultMetrics, Registry } from "prom-client";
import type { AssistantConfig } from "../base/assistant-config.ts";
import { assistantControlSocket } from "../base/assistant-paths.ts";
import { Cleanup } from "../base/cleanup.ts";
import { type Clock, systemClock } from "../base/clock.ts";
import { BerthError } from "../base/errors.ts";
import { createLogger, type Logger } from "../base/logger.ts";
import { packageVersion } from "../base/package-version.ts";
import { writeReadyFile } from "../base/ready-file.ts";
import { ControlServer } from "./inference/control/control-server.ts";
import type { Engine } from "./inference/engine.ts";
import { Doors } from "./inference/http/doors.ts";
import { buildInferenceHttp } from "./inference/http/server.ts";
import { LlamaEngine } from "./inference/llama/llama-engine.ts";
import { KnownModels } from "./inference/models/known-models.ts";
import { ModelFactsCache } from "./inference/models/model-facts.ts";
import { Residency } from "./inference/models/residency.ts";
import { GrammarCompiler } from "./inference/schema-grammar/grammar-compiler.ts";
import { Admission } from "./inference/service/admission.ts";
import { AnswerPlanner } from "./inference/service/answer-plan.ts";
import { Inference } from "./inference/service/service.ts";
import { StubEngine } from "./inference/stub/stub-engine.ts";
import { openLedger } from "./ledger/ledger.ts";

/** What the ready line and `run/assistant.json` say. */
export interface AssistantReady {
  /** http://127.0.0.1:port, as bound. */
  readonly url: string;
  readonly instance: "system" | "user";
  readonly data_dir: string;
  readonly control_socket: string;
  readonly engine: string;
  readonly pid: number;
  readonly version: string;
}

export interface RunningAssistant {
  readonly ready: AssistantReady;
  /** Resolves when the daemon has ended. */
  readonly closed: Promise<void>;
  /** Ends the daemon; streams under way get an error event. Safe to call twice. */
  close(): Promise<void>;
}

/**
 * The system instance: local models on 127.0.0.1:7777, and the control socket by which the control plane
 * drives it. The ledger is opened first, since nothing may happen without it, and keeps a second daemon
 * off the data directory.
 */
export async function runSystemAssistant(config: AssistantConfig): Promise<RunningAssistant> {
  const logger = createLogger({ format: config.logFormat, level: config.logLevel });
  const clock = systemClock;
  const version = packageVersion();
  await using starting = new Cleanup();
  const runDir = join(config.dataDir, "run");
  const modelsDir = join(config.dataDir, "models");
  await mkdir(runDir, { recursive: true, mode: 0o700 });
  await mkdir(modelsDir, { recursive: true, mode: 0o700 });
  await chmod(config.dataDir, 0o700).catch(() => {});

  const ledger = starting.use(await openLedger({ dir: config.dataDir, clock, logger, version }));
  const engine = starting.use(engineOf(config, clock, logger));
  const known = new KnownModels({
    folder: engine.name === "stub" ? undefined : modelsDir,
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
  const metrics = new Registry();
  collectDefaultMetrics({ register: metrics });
  const doors = new Doors({ logger });
  const http = buildInferenceHttp({ service, logger, clock, metrics, version, doors });
  starting.defer(() => http.close());
  starting.use(doors);
  const url = await listen(http, config.port);
  const control = starting.use(
    new ControlServer({
      known,
      facts,
      residency,
      logger,
      openDoors: (list) => doors.open(list),
      state: () => ({
        version,
        pid: process.pid,
        engine: engine.name,
        url,
        memory_bytes_max: config.memoryBytesMax,
        started_by: config.startedBy ?? null,
        ledger: { ok: ledger.state.ok, size: ledger.state.size },
      }),
    }),
  );
  const controlSocket = assistantControlSocket(config.dataDir);
  await control.listen(controlSocket);
  const ready: AssistantReady = {
    url,
    instance: config.instance,
    data_dir: config.dataDir,
    control_socket: controlSocket,
    engine: engine.name,
    pid: process.pid,
    version,
  };
  await writeReadyFile(join(runDir, "assistant.json"), ready);
  logger.info({ url, engine: engine.name }, "the assistant is up");
  void residency.loadPinned();
  return running(ready, starting.move(), logger);
}

/** auto is llama.cpp, with models or without: the stub answers only whoever asks for it. */
function engineOf(config: AssistantConfig, clock: Clock, logger: Logger): Engine {
  if (config.engine === "stub") return new StubEngine({ clock });
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

async function listen(
  http: { listen(address: { host: string; port: number }): Promise<string> },
  port: number,
): Promise<string> {
  try {
    return await http.listen({ host: "127.0.0.1", port });
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "EADDRINUSE")
      throw new BerthError("conflict", `port ${port} of 127.0.0.1 is taken by another program`, {
        hint: "is the assistant running already? Otherwise choose another port with --port, 0 for any",
        cause: error,
      });
    throw error;
  }
}

function running(ready: AssistantReady, parts: Cleanup, logger: Logger): RunningAssistant {
  const ended = new EventEmitter();
  const untilEnded = async () => void (await once(ended, "end"));
  let closing: Promise<void> | undefined;
  return {
    ready,
    closed: untilEnded(),
    close: () => {
      closing ??= parts[Symbol.asyncDispose]()
        // All parts have had their turn, and there is nobody left to tell.
        .catch((error: unknown) => logger.error({ err: error }, "a part did not end well"))
        .finally(() => ended.emit("end"));
      return closing;
    },
  };
}
