import { AssistantError } from "../../assistant-error.ts";
import type { ToolCandidate } from "./tool-candidates.ts";

/** A step may ask so often with other schemas before it does without any; a refusal costs no more than compiling. */
const REFUSALS_MAX = 6;
/** Declarations that are remembered, the newest of them. */
const KNOWN_MAX = 1_024;

/**
 * Which schemas of tools the engine can turn into a grammar, as it turns out. The engine refuses a guide whole and
 * is only sometimes here, so the odd one is found by leaving out: half of those that nobody knows, then half of
 * that. Each answer on the way is a real one, and what has been learned holds while a declaration stays the same.
 */
export class EnforceableSchemas {
  /** By the declaration's digest. */
  readonly #known = new Map<string, boolean>();

  /** Asks with as many schemas as can be enforced. Rejects as `ask` does, with `unsupported_schema` only where none is in it. */
  async ask<T>(
    candidates: readonly ToolCandidate[],
    ask: (enforced: ReadonlySet<ToolCandidate>) => Promise<T>,
  ): Promise<T> {
    let good = candidates.filter(({ digest }) => this.#known.get(digest) === true);
    let open = this.#listUnknown(candidates);
    for (let refusals = 0; ; refusals += 1) {
      if (refusals === REFUSALS_MAX) [good, open] = [[], []];
      try {
        const answer = await ask(new Set([...good, ...open]));
        for (const { digest } of open) this.#remember(digest, true);
        return answer;
      } catch (error) {
        const isRefused = error instanceof AssistantError && error.code === "unsupported_schema";
        if (!isRefused || good.length + open.length === 0) throw error;
        const [first] = open;
        if (first && open.length === 1) {
          this.#remember(first.digest, false);
          open = this.#listUnknown(candidates);
        } else if (first) open = open.slice(0, Math.ceil(open.length / 2));
        // Each can be enforced, and all of them together are too much.
        else good = good.slice(0, Math.floor(good.length / 2));
      }
    }
  }

  /** Those that nobody knows anything of. */
  #listUnknown(candidates: readonly ToolCandidate[]): readonly ToolCandidate[] {
    return candidates.filter(({ digest }) => !this.#known.has(digest));
  }

  #remember(digest: string, isEnforceable: boolean): void {
    this.#known.delete(digest);
    this.#known.set(digest, isEnforceable);
    if (this.#known.size <= KNOWN_MAX) return;
    for (const oldest of this.#known.keys()) {
      this.#known.delete(oldest);
      return;
    }
  }
}
