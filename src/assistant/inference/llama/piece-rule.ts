import type { PieceRule } from "../runner.ts";
import { BATCH_TOKENS } from "./gguf/memory-estimate.ts";

/**
 * The flash attention of llama.cpp on the processor reads 64 or more tokens of a sequence in tiles with 32-bit sums, and
 * fewer tokens one by one with 16-bit sums (`Q_TILE_SZ` in `ggml-cpu/ops.cpp`). A narrow piece stays below that, also
 * after the tokens are rounded to groups.
 */
const NARROW_TOKENS_MAX = 60;
/** With repacked weights llama.cpp multiplies four rows at once, and the rest one by one (`ggml-cpu/repack.cpp`). */
const GROUP_TOKENS = 4;

/** Returns the rule by which prompts are divided into the pieces that llama.cpp evaluates. */
export function createPieceRule(isExact: boolean): PieceRule {
  return {
    wideTokens: BATCH_TOKENS,
    narrowTokensMax: NARROW_TOKENS_MAX,
    groupTokens: GROUP_TOKENS,
    isExact,
  };
}
