import { ConflictError, NotFoundError } from "../../base/errors.ts";
import { findNearest } from "../../base/spelling-suggestions.ts";
import type { AssistantModel } from "../../controller/models/assistant/port.ts";
import type { Manifest } from "../../resources/kinds.ts";
import { getRepository } from "../../resources/model-aliases.ts";
import type { ModelSpec } from "../../resources/model-spec.ts";
import type { Resource } from "../../resources/resource.ts";
import type { ApiContext } from "../api-context.ts";
import { hasQuantization, listAssistantModels, listCatalogModels } from "./list-models.ts";
import { chooseModelName, type ModelId, parseModelId } from "./model-id.ts";

type ModelLookupDependencies = Pick<ApiContext, "store" | "control" | "models">;

/** The result of looking up a model id. */
export type FoundModel =
  | { readonly type: "resource"; readonly model: Resource<"Model"> }
  | { readonly type: "catalog"; readonly entry: Manifest<"Model"> }
  | { readonly type: "assistant"; readonly file: AssistantModel }
  /**
   * The id names a repository that neither a Model nor a catalog entry has. The repository may
   * exist on the hub.
   */
  | {
      readonly type: "repository";
      readonly repository: string;
      readonly quantization: string | undefined;
    };

/**
 * Looks for the id among the names of Models, the repositories of Models, the catalog, and the files of the assistant.
 * Throws BerthError `invalid_request` for an invalid id, ConflictError `conflict` if several Models have the
 * repository, NotFoundError for an unknown name.
 */
export function findModel(context: ModelLookupDependencies, written: string): FoundModel {
  const named = context.store.get("Model", written);
  if (named) return { type: "resource", model: named };
  const file = listAssistantModels(context).find(({ id }) => id === written);
  // Files are looked up by name before the id is parsed, because their names may contain characters that ids may not
  // contain.
  if (file && !written.includes("/"))
    return findInCatalog(context, written) ?? { type: "assistant", file };
  const id = parseModelId(written);
  return (
    findByRepository(context, id) ?? findInCatalog(context, written) ?? toHubRepository(context, id)
  );
}

/** Looks up a model as `findModel` does, but throws NotFoundError for a repository that Berth does not know. */
export function findKnownModel(
  context: ModelLookupDependencies,
  written: string,
): Exclude<FoundModel, { type: "repository" }> {
  const found = findModel(context, written);
  if (found.type === "repository") throw modelNotFoundError(context, written);
  return found;
}

function findInCatalog(context: ModelLookupDependencies, name: string): FoundModel | undefined {
  const entry = listCatalogModels(context).find(({ metadata }) => metadata.name === name);
  return entry && { type: "catalog", entry };
}

function findByRepository(context: ModelLookupDependencies, id: ModelId): FoundModel | undefined {
  const { repository, quantization } = id;
  if (repository === undefined) return undefined;
  const isOf = (spec: ModelSpec) => getRepository(spec)?.toLowerCase() === repository.toLowerCase();
  const models = context.store
    .list("Model")
    .filter((model) => isOf(model.spec))
    .filter((model) => quantization === undefined || hasQuantization(model, quantization));
  const model = requireSingle(models, id);
  if (model) return { type: "resource", model };
  const entries = listCatalogModels(context)
    .filter(({ spec }) => isOf(spec))
    .filter(
      ({ spec }) =>
        quantization === undefined ||
        spec.quantization?.toLowerCase() === quantization.toLowerCase(),
    );
  const entry = requireSingle(entries, id);
  return entry && { type: "catalog", entry };
}

function requireSingle<T extends { readonly metadata: { readonly name: string } }>(
  found: readonly T[],
  id: ModelId,
): T | undefined {
  if (found.length < 2) return found[0];
  const names = found.map(({ metadata }) => metadata.name).join(", ");
  throw new ConflictError("conflict", `${id.text} is the repository of several models: ${names}`, {
    hint: "use the name of one of these models",
  });
}

function toHubRepository(
  context: ModelLookupDependencies,
  { text, repository, quantization }: ModelId,
): FoundModel {
  if (repository === undefined) throw modelNotFoundError(context, text);
  return { type: "repository", repository, quantization };
}

function modelNotFoundError(context: ModelLookupDependencies, written: string): NotFoundError {
  const names = [
    ...context.store.list("Model").map(({ metadata }) => metadata.name),
    ...listAssistantModels(context).map(({ id }) => id),
    ...listCatalogModels(context).map(({ metadata }) => metadata.name),
  ];
  const shown = JSON.stringify(written.slice(0, 80));
  const meant = findNearest(written, names);
  return new NotFoundError(
    `there is no model ${shown}`,
    meant === undefined
      ? "to name a model of the hub, write its repository as org/name"
      : `did you mean "${meant}"?`,
  );
}

/**
 * Returns the manifest of the Model to create for a catalog entry, a repository on the hub, or a file in the
 * assistant's folder.
 */
export function createModelManifest(
  context: ModelLookupDependencies,
  found: Exclude<FoundModel, { type: "resource" }>,
): Pick<Manifest<"Model">, "metadata" | "spec"> {
  if (found.type === "catalog") return found.entry;
  if (found.type === "repository") {
    const { repository, quantization } = found;
    const isUsed = (candidate: string) => isNameTaken(context, candidate);
    const name = chooseModelName({ id: repository, quantization }, isUsed);
    const choice = quantization === undefined ? {} : { quantization };
    return { metadata: { name }, spec: { source: repository, ...choice } };
  }
  const { id, path } = found.file;
  if (path === null) throw noModelFileError(id);
  // A new Model for this file may have the id of the file as its name, although `isNameTaken` returns true for it.
  const isOther = (name: string) => name !== id && isNameTaken(context, name);
  return { metadata: { name: chooseModelName({ id }, isOther) }, spec: { source: path } };
}

function noModelFileError(id: string): ConflictError {
  return new ConflictError("wrong_state", `model "${id}" has no file: it is part of the assistant`);
}

/**
 * Returns true if a Model, a catalog entry or a file of the assistant has the name. (A Model with the name of a
 * catalog entry would hide that entry.)
 */
function isNameTaken({ store, control, models }: ModelLookupDependencies, name: string): boolean {
  return (
    store.get("Model", name) !== undefined ||
    models.some(({ metadata }) => metadata.name === name) ||
    control.otherModels().some(({ id }) => id === name)
  );
}
