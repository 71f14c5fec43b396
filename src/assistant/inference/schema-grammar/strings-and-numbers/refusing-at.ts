import { refuse } from "../refusal.ts";
import type { NumberConstraints, StringConstraints, StringPattern } from "../scalars.ts";
import { TooLargeError, UnsupportedTextError } from "./budget.ts";

type Place = StringPattern | StringConstraints | NumberConstraints;

/** Runs `work`, and turns what it cannot do into a refusal that names the keyword and where it stands. */
export function refusingAt<Result>(place: Place, work: () => Result): Result {
  try {
    return work();
  } catch (error) {
    if (error instanceof TooLargeError) return refuseAt(place, error.message);
    if (error instanceof UnsupportedTextError) return refuseAt(place, error.message);
    throw error;
  }
}

function refuseAt(place: Place, why: string): never {
  if ("source" in place) return refuse(place.keyword, place.pointer, why);
  if ("integer" in place) {
    const keyword = place.multipleOf === undefined ? "minimum" : "multipleOf";
    return refuse(keyword, `${place.pointer}/${keyword}`, why);
  }
  const first = [...place.patterns, ...place.formats, ...place.forbiddenPatterns][0];
  if (first === undefined) return refuse("minLength", "a string", why);
  return refuse(first.keyword, first.pointer, `${why}, together with what else is asked of it`);
}
