import { ConflictError, NotFoundError } from "../../base/errors.ts";
import { nearest } from "../../base/nearest.ts";
import type { AssistantModel } from "../../controller/models/assistant/port.ts";
import type { Manifest } from "../../resources/kinds.ts";
import type { ModelSpec } from "../../resources/model.ts";
import { repositoryOf } from "../../resources/model-aliases.ts";
import type { Resource } from "../../resources/resource.ts";
import type { ApiContext } from "../context.ts";
import { hasQuantization, offeredModels, ownModels } from "./known-models.ts";
import { type ModelId, newModelName, parseModelId } from "./model-id.ts";

type Sources = Pick<ApiContext, "store" | "control" | "models">;

/** What an id stands for. */
export type FoundModel =
  | { readonly type: "resource"; readonly model: Resource<"Model"> }
  | { readonly type: "catalog"; readonly entry: Manifest<"Model"> }
  | { readonly type: "assistant"; readonly file: AssistantModel }
  /** Nobody knows it yet, and it may be one of the hub's. */
  | {
      readonly type: "repository";
      readonly repository: string;
      readonly quantization: string | undefined;
    };

/**
 * The name of a Model comes first, then its repository, the catalog, and files of the assistant.
 * Throws BerthError `invalid_request` for what cannot be an id, ConflictError `conflict` where several
 * Models are of one repository, NotFoundError for a name that nobody has.
 */
export function findModel(context: Sources, written: string): FoundModel {
  const named = context.store.get("Model", written);
  if (named) return { type: "resource", model: named };
  const file = ownModels(context).find(({ id }) => id === written);
  // Names of files may hold what no id may.
  if (file && !written.includes("/"))
    return offeredByName(context, written) ?? { type: "assistant", file };
  const id = parseModelId(written);
  return byRepository(context, id) ?? offeredByName(context, written) ?? fromHub(context, id);
}

/** As `findModel`, of what is known already. Throws NotFoundError for a repository that nobody has asked for. */
export function findKnownModel(
  context: Sources,
  written: string,
): Exclude<FoundModel, { type: "repository" }> {
  const found = findModel(context, written);
  if (found.type === "repository") throw noSuchModel(context, written);
  return found;
}

function offeredByName(context: Sources, name: string): FoundModel | undefined {
  const entry = offeredModels(context).find(({ metadata }) => metadata.name === name);
  return entry && { type: "catalog", entry };
}

function byRepository(context: Sources, id: ModelId): FoundModel | undefined {
  const { repository, quantization } = id;
  if (repository === undefined) return undefined;
  const isOf = (spec: ModelSpec) => repositoryOf(spec)?.toLowerCase() === repository.toLowerCase();
  const models = context.store
    .list("Model")
    .filter((model) => isOf(model.spec))
    .filter((model) => quantization === undefined || hasQuantization(model, quantization));
  const model = only(models, id);
  if (model) return { type: "resource", model };
  const entries = offeredModels(context)
    .filter(({ spec }) => isOf(spec))
    .filter(
      ({ spec }) =>
        quantization === undefined ||
        spec.quantization?.toLowerCase() === quantization.toLowerCase(),
    );
  const entry = only(entries, id);
  return entry && { type: "catalog", entry };
}

function only<T extends { readonly metadata: { readonly name: string } }>(
  found: readonly T[],
  id: ModelId,
): T | undefined {
  if (found.length < 2) return found[0];
  const names = found.map(({ metadata }) => metadata.name).join(", ");
  throw new ConflictError("conflict", `${id.text} is the repository of several models: ${names}`, {
    hint: "write the name of the one that is meant",
  });
}

function fromHub(context: Sources, { text, repository, quantization }: ModelId): FoundModel {
  if (repository === undefined) throw noSuchModel(context, text);
  return { type: "repository", repository, quantization };
}

function noSuchModel(context: Sources, written: string): NotFoundError {
  const names = [
    ...context.store.list("Model").map(({ metadata }) => metadata.name),
    ...ownModels(context).map(({ id }) => id),
    ...offeredModels(context).map(({ metadata }) => metadata.name),
  ];
  const shown = JSON.stringify(written.slice(0, 80));
  const meant = nearest(written, names);
  return new NotFoundError(
    `there is no model ${shown}`,
    meant === undefined
      ? "one of the hub is named by its repository, as org/name"
      : `did you mean "${meant}"?`,
  );
}

/** What a Model has to be made of, where there is none yet. */
export function manifestOf(
  context: Sources,
  found: Exclude<FoundModel, { type: "resource" }>,
): Pick<Manifest<"Model">, "metadata" | "spec"> {
  if (found.type === "catalog") return found.entry;
  if (found.type === "repository") {
    const { repository, quantization } = found;
    const isUsed = (candidate: string) => isTaken(context, candidate);
    const name = newModelName({ id: repository, quantization }, isUsed);
    const choice = quantization === undefined ? {} : { quantization };
    return { metadata: { name }, spec: { source: repository, ...choice } };
  }
  const { id, path } = found.file;
  if (path === null) throw withoutFile(id);
  // The assistant may go on calling it as it does now.
  const isOther = (name: string) => name !== id && isTaken(context, name);
  return { metadata: { name: newModelName({ id }, isOther) }, spec: { source: path } };
}

function withoutFile(id: string): ConflictError {
  return new ConflictError(
    "wrong_state",
    `model "${id}" has no file: the assistant brings it along`,
  );
}

/** By a Model, by an entry of the catalog, which would be hidden, or by a file of the assistant. */
function isTaken({ store, control, models }: Sources, name: string): boolean {
  return (
    store.get("Model", name) !== undefined ||
    models.some(({ metadata }) => metadata.name === name) ||
    control.otherModels().some(({ id }) => id === name)
  );
}
