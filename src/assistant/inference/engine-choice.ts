import { MUSL_NOTICE } from "../../base/c-library.ts";
import { AssistantError } from "../assistant-error.ts";

export interface EngineChoice {
  readonly engine: "llama" | "stub";
  /** A notice for the user about the chosen engine; undefined if the choice needs no explanation. */
  readonly notice?: string;
}

/**
 * `auto` selects llama.cpp, except on musl, where it selects the stub. Throws `engine_failed` if llama.cpp was
 * requested by name and does not run on this system. Berth neither compiles nor downloads a replacement.
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
