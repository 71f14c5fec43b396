import { createContext, Script } from "node:vm";

/**
 * Runs a synchronous function and interrupts it after the time limit. The function evaluates input of an untrusted
 * author, such as a chat template or a regular expression, which could run forever. Throws the errors of `run`, and
 * TimeLimitError.
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
    // The time limit of a script covers all functions that it calls, including those of other contexts, so it also
    // covers `run`.
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

/**
 * The global object of the context in which all calls run. There is only one context, because creating one takes longer
 * than a usual call.
 */
const globals = { run: () => {} };
const context = createContext(globals);
const script = new Script("run()");
