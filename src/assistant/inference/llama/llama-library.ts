import {
  getLlama,
  type Token as LibraryToken,
  type Llama,
  LlamaLogLevel,
  type LlamaModel,
} from "node-llama-cpp";

export interface LibraryOptions {
  /**
   * The value false means that only the processor is used; "auto" means any GPU for which a prebuilt library is
   * installed.
   */
  readonly gpu: "auto" | false;
  /** The maximum number of threads that compute at a time. */
  readonly threadsMax: number;
  log(level: "debug" | "info" | "warn" | "error", message: string): void;
}

/** Loads llama.cpp into this process. Compiles and downloads nothing: npm has installed the binary. */
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

/** Loads the weights. Skips node-llama-cpp's memory checks, because `chooseSize` has already made its own. */
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

/** Copies tokens into node-llama-cpp's type: a mutable array of branded numbers. */
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
