import { createContext, Script } from "node:vm";

/**
 * Runs code that does not wait, and ends it when it takes too long: a template comes with a file from
 * anywhere, and may count to a billion. Throws what `run` throws, and TimeLimitError.
 */
export function runWithTimeLimit<T>(run: () => T, limitMs: number): T {
  let outcome: { readonly value: T } | { readonly error: unknown } | undefined;
  globals.run = () => {
    try {
      outcome = { value: run() };
    } catch (error) {
      outcome = { error };
    }
  };
  try {
    // The limit of a script holds for all that the script calls, wherever that was made.
    script.runInContext(context, { timeout: limitMs });
  } catch (error) {
    throw new TimeLimitError(`took longer than ${limitMs} ms`, { cause: error });
  } finally {
    globals.run = () => {};
  }
  if (outcome === undefined) throw new TimeLimitError("did not end");
  if ("error" in outcome) throw outcome.error;
  return outcome.value;
}

export class TimeLimitError extends Error {}

/** One for all calls: making a context takes longer than rendering a template. */
const globals = { run: () => {} };
const context = createContext(globals);
const script = new Script("run()");
