import { AssistantError } from "../../assistant-error.ts";
import type { ToolCandidate } from "./tool-candidates.ts";

/**
 * After the engine has refused this many requests, the model is called without any tool schemas. Several refusals are
 * acceptable, because each costs only the time of a compilation.
 */
const REFUSALS_MAX = 6;
/** The maximum number of tool schemas for which it is cached whether the engine can compile them. */
const KNOWN_MAX = 1_024;

/**
 * Finds the tool schemas that the engine can compile to a grammar. The engine refuses the combined schema of a request
 * as a whole, so an unsupported tool schema is found by bisection: half of the unknown schemas are left out, then half
 * of the rest. Each attempt is the model call itself, so the first attempt that the engine accepts returns the model's
 * answer. The result for a tool schema is cached and is valid while the tool's declaration is unchanged.
 */
export class EnforceableSchemas {
  /** For the digest of each declaration, true if its schema can be enforced. */
  readonly #known = new Map<string, boolean>();

  /**
   * Calls the callback `ask` with as many candidates as possible whose combined schema the engine can enforce. After
   * `unsupported_schema`, calls `ask` again with fewer candidates. Rejects with any other error of `ask`, and with
   * `unsupported_schema` if the refused request contained no tool schema.
   */
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
        // The engine can enforce each schema alone, but the combined schema is too large. The second half is left out.
        else good = good.slice(0, Math.floor(good.length / 2));
      }
    }
  }

  /** Returns the candidates whose schemas have not been tried yet. */
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
