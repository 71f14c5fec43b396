import {
  getLlama,
  type Token as LibraryToken,
  type Llama,
  LlamaLogLevel,
  type LlamaModel,
} from "node-llama-cpp";

export interface LibraryOptions {
  /** false: only the processor; "auto": whatever the machine has and a prebuilt library exists for. */
  readonly gpu: "auto" | false;
  /** No more threads than these ever compute at once. */
  readonly threadsMax: number;
  log(level: "debug" | "info" | "warn" | "error", message: string): void;
}

/** Loads llama.cpp into this process. Nothing is compiled or fetched: what npm installed has to do. */
export function openLibrary(options: LibraryOptions): Promise<Llama> {
  return getLlama({
    gpu: options.gpu,
    build: "never",
    usePrebuiltBinaries: true,
    skipDownload: true,
    progressLogs: false,
    maxThreads: options.threadsMax,
    logLevel: LlamaLogLevel.warn,
    logger: (level, message) => options.log(toLogLevel(level), message.trimEnd()),
  });
}

/** Loads the weights. `inspectModel` has decided that they fit, and by numbers that can be explained. */
export function openModel(
  llama: Llama,
  options: {
    readonly path: string;
    readonly onProgress?: (done: number) => void;
    readonly signal?: AbortSignal;
  },
): Promise<LlamaModel> {
  return llama.loadModel({
    modelPath: options.path,
    gpuLayers: llama.gpu === false ? 0 : "auto",
    defaultContextFlashAttention: "auto",
    ignoreMemorySafetyChecks: true,
    ...(options.onProgress && { onLoadProgress: options.onProgress }),
    ...(options.signal && { loadSignal: options.signal }),
  });
}

/** The library's tokens are numbers with a brand. This copies, since it takes none that are read-only. */
export function toLibraryTokens(tokens: readonly number[]): LibraryToken[] {
  return tokens.filter(isLibraryToken);
}

function isLibraryToken(token: number): token is LibraryToken {
  return token >= 0;
}

function toLogLevel(level: LlamaLogLevel): "debug" | "info" | "warn" | "error" {
  switch (level) {
    case LlamaLogLevel.fatal:
    case LlamaLogLevel.error:
      return "error";
    case LlamaLogLevel.warn:
      return "warn";
    case LlamaLogLevel.info:
      return "info";
    default:
      return "debug";
  }
}
