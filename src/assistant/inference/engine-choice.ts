import { MUSL_NOTICE } from "../../base/c-library.ts";
import { AssistantError } from "../assistant-error.ts";

export interface EngineChoice {
  readonly engine: "llama" | "stub";
  /** Why it is another one than a user would expect; undefined when it is not. */
  readonly notice?: string;
}

/**
 * `auto` is llama.cpp, with models or without, wherever it runs; on musl it is the stub. Throws `engine_failed` when
 * llama.cpp is asked for by name and does not run here: nothing is compiled or downloaded instead.
 */
export function chooseEngine(
  wanted: "auto" | "llama" | "stub",
  system: { readonly isMusl: boolean },
): EngineChoice {
  if (wanted === "stub") return { engine: "stub" };
  if (!system.isMusl) return { engine: "llama" };
  if (wanted === "auto") return { engine: "stub", notice: MUSL_NOTICE };
  throw new AssistantError(
    "engine_failed",
    "llama.cpp does not run on this system, whose C library is musl; use one with glibc, such as Debian, or the engine stub",
  );
}
