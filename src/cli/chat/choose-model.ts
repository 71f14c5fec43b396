import { BerthError, NotFoundError } from "../../base/errors.ts";
import { formatSuggestion } from "../../base/spelling-suggestions.ts";
import type { ServedModel } from "../../client/rest/chat-client.ts";

/**
 * The model to talk to: the one of that id or alias, or the one that the assistant would take by itself.
 * Throws NotFoundError, with what there is, and BerthError `invalid_request` for one that cannot chat.
 */
export function chooseModel(
  models: readonly ServedModel[],
  wanted: string | undefined,
): ServedModel {
  if (wanted === undefined) return chooseDefaultModel(models);
  const found = findServedModel(models, wanted);
  if (found === undefined)
    throw new NotFoundError(
      `the assistant has no model "${wanted}"${formatSuggestion(wanted, listNames(models))}`,
      models.length === 0
        ? noModelHint
        : `\`berth models start ${wanted}\` where it is one of \`berth models ls\`; the assistant has ${models.map(({ id }) => id).join(", ")}`,
    );
  if (found.kind === "embedding")
    throw new BerthError(
      "invalid_request",
      `the model "${found.id}" makes embeddings, not answers`,
      {
        hint: "`berth models ls` lists the others",
      },
    );
  return found;
}

export function findServedModel(
  models: readonly ServedModel[],
  word: string,
): ServedModel | undefined {
  const lower = word.toLowerCase();
  return (
    models.find((model) => listNames([model]).includes(word)) ??
    models.find((model) => listNames([model]).some((name) => name.toLowerCase() === lower))
  );
}

const noModelHint =
  "`berth models start NAME` starts one of `berth models ls --all`; `berth models pull ORG/NAME` gets one";

function chooseDefaultModel(models: readonly ServedModel[]): ServedModel {
  const able = models.filter(({ kind }) => kind !== "embedding");
  const best =
    able.find(({ state }) => state === "resident") ??
    able.find(({ state }) => state === "loading") ??
    able.find(({ state }) => state !== "failed") ??
    able[0];
  if (best === undefined)
    throw new NotFoundError("the assistant has no model to talk to", noModelHint);
  return best;
}

function listNames(models: readonly ServedModel[]): string[] {
  return models.flatMap(({ id, aliases }) => [id, ...aliases]);
}
