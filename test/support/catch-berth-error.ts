import { BerthError } from "../../src/base/errors.ts";

/** Returns the BerthError that `work` throws. Fails if it throws nothing or another error. */
export function catchBerthError(work: () => unknown): BerthError {
  try {
    work();
  } catch (error) {
    if (error instanceof BerthError) return error;
    throw error;
  }
  throw new Error("nothing was thrown");
}
