import { BerthError, NotFoundError } from "../../base/errors.ts";
import { formatSuggestion } from "../../base/spelling-suggestions.ts";
import type { ServedModel } from "../../client/rest/chat-client.ts";

/**
 * Returns the model with the id or alias `wanted`, or the default model if `wanted` is undefined. Throws NotFoundError,
 * which lists the models, and BerthError `invalid_request` for a model that cannot chat.
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
        : `\`berth models start ${wanted}\` starts it if \`berth models ls\` lists it; the assistant has ${models.map(({ id }) => id).join(", ")}`,
    );
  if (found.kind === "embedding")
    throw new BerthError(
      "invalid_request",
      `the model "${found.id}" is an embedding model and cannot chat`,
      {
        hint: "`berth models ls` lists the other models",
      },
    );
  if (found.kind === "completion") throw noChatModelError(found);
  return found;
}

/** The error for a base model, whose file has no chat template. */
function noChatModelError({ id }: ServedModel): BerthError {
  return new BerthError(
    "invalid_request",
    `the model "${id}" is not a chat model: its file has no chat template`,
    {
      hint: "`berth models ls` lists the other models; the field chatTemplate of a Model gives it a template",
    },
  );
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
  "`berth models start NAME` starts a model that `berth models ls --all` lists; `berth models pull ORG/NAME` downloads another one";

function chooseDefaultModel(models: readonly ServedModel[]): ServedModel {
  const able = models.filter(({ kind }) => kind !== "embedding" && kind !== "completion");
  const best =
    able.find(({ state }) => state === "resident") ??
    able.find(({ state }) => state === "loading") ??
    able.find(({ state }) => state !== "failed") ??
    able[0];
  if (best !== undefined) return best;
  const base = models.find(({ kind }) => kind === "completion");
  if (base !== undefined) throw noChatModelError(base);
  throw new NotFoundError("the assistant has no chat model", noModelHint);
}

function listNames(models: readonly ServedModel[]): string[] {
  return models.flatMap(({ id, aliases }) => [id, ...aliases]);
}
