import { MUSL_NOTICE } from "../../base/c-library.ts";
import { AssistantError } from "../assistant-error.ts";

export interface EngineChoice {
  readonly engine: "llama" | "stub";
  /** Explains an engine that the user may not expect; undefined if there is nothing to explain. */
  readonly notice?: string;
}

/**
 * `auto` selects llama.cpp, except on musl, where it selects the stub. Throws `engine_failed` if llama.cpp was
 * requested by name and does not run on this system: nothing is compiled or downloaded to replace it.
 */
export function chooseEngine(
  requested: "auto" | "llama" | "stub",
  system: { readonly isMusl: boolean },
): EngineChoice {
  if (requested === "stub") return { engine: "stub" };
  if (!system.isMusl) return { engine: "llama" };
  if (requested === "auto") return { engine: "stub", notice: MUSL_NOTICE };
  throw new AssistantError(
    "engine_failed",
    "llama.cpp does not run on this system, whose C library is musl; use a system with glibc, such as Debian, or the engine stub",
  );
}
