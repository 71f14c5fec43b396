import type { SearchHit } from "../context/port.ts";
import type { AskRequest, SourceMeta, TurnMeta } from "./port.ts";

/** The result of the search at the start of a turn. */
export interface SearchOutcome {
  readonly hits: readonly SearchHit[];
  readonly hasSearched: boolean;
}

export const noSearch: SearchOutcome = { hits: [], hasSearched: false };

/**
 * Builds the argument of Started. `hasTools` is false if there is no local model that can choose tools; undefined for
 * the lane `chat`, and if that is not known.
 */
export function buildTurnMeta(
  request: AskRequest,
  route: TurnMeta["route"],
  { hits, hasSearched }: SearchOutcome,
  hasTools: boolean | undefined,
): TurnMeta {
  const { lane, modelHint, myStuff, scopes, window, selection } = request;
  const searchOptions = [
    ...(myStuff ? ["my_stuff"] : []),
    ...(scopes === undefined ? [] : ["scopes"]),
  ];
  return {
    v: 1,
    lane,
    model: modelHint ?? null,
    route,
    options: hasSearched ? searchOptions : [],
    unavailable: [
      ...(hasSearched ? [] : searchOptions),
      ...(window ? ["window"] : []),
      ...(selection ? ["selection"] : []),
      ...(hasTools === false ? ["tools"] : []),
    ],
    sources: hits.map(toSourceMeta),
  };
}

export function toSourceMeta({ source, provenance, title, uri, score }: SearchHit): SourceMeta {
  return { source, provenance, title, uri, score };
}
