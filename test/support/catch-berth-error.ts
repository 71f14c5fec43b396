import { BerthError } from "../../src/base/errors.ts";

/** The BerthError that `work` throws; fails where it throws nothing, or something else. */
export function catchBerthError(work: () => unknown): BerthError {
  try {
    work();
  } catch (error) {
    if (error instanceof BerthError) return error;
    throw error;
  }
  throw new Error("nothing was thrown");
}
