import type { AssistantModel } from "../../controller/models/assistant/port.ts";
import type { Manifest } from "../../resources/kinds.ts";
import { getRepository } from "../../resources/model-aliases.ts";
import { parseModelSource } from "../../resources/model-source.ts";
import type { ModelSpec } from "../../resources/model-spec.ts";
import type { Resource } from "../../resources/resource.ts";
import type { ModelView } from "../../resources/wire/models.ts";
import type { ApiContext } from "../api-context.ts";
import { isObserved } from "../views/model-state.ts";
import { assistantModelView, catalogModelView, modelView } from "../views/models.ts";

type ModelListDependencies = Pick<ApiContext, "store" | "control" | "models">;

/**
 * Returns the Models sorted by name, then the files in the assistant's own folder, then the catalog entries that have
 * no Model.
 */
export function listModels(context: ModelListDependencies): ModelView[] {
  const models = context.store.list("Model");
  return [
    ...models.map((model) => getModelView(context, model, models)),
    ...listAssistantModels(context).map((file) => assistantModelView(file)),
    ...listCatalogModels(context).map((entry) => catalogModelView(entry)),
  ];
}

/** Returns the list item of a Model with its current progress. */
export function getModelView(
  { store, control }: ModelListDependencies,
  model: Resource<"Model">,
  all: readonly Resource<"Model">[] = store.list("Model"),
): ModelView {
  const view = modelView(model, control.modelProgress(model.metadata.name), all);
  const { state, message } = control.assistant();
  // If the assistant is off, it will not load the model. The stored status does not show that yet, so the
  // message of the list item does.
  const isOff = state === "off" && model.spec.running === true && !isObserved(model);
  return isOff ? { ...view, message: `${view.message}; ${message}` } : view;
}

/** Returns the catalog entries without a Model, by name. */
export function listCatalogModels({
  store,
  models: catalog,
}: ModelListDependencies): Manifest<"Model">[] {
  const models = store.list("Model");
  const byName = new Map(catalog.map((entry) => [entry.metadata.name, entry]));
  return [...byName.values()]
    .filter((entry) => !models.some((model) => isMadeFrom(model, entry)))
    .toSorted((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1));
}

function isMadeFrom(model: Resource<"Model">, { metadata, spec }: Manifest<"Model">): boolean {
  if (model.metadata.name === metadata.name) return true;
  const repository = getRepository(spec);
  if (repository === undefined) return model.spec.source === spec.source;
  if (getRepository(model.spec) !== repository) return false;
  return spec.quantization === undefined || hasQuantization(model, spec.quantization);
}

/**
 * Returns true if the Model has this quantization. Uses the quantization in the status, or the one in the spec if the
 * status has none.
 */
export function hasQuantization({ spec, status }: Resource<"Model">, wanted: string): boolean {
  return [
    status?.memory.pin?.model.quantization,
    status?.facts?.quantization,
    spec.quantization,
  ].some((quantization) => quantization?.toLowerCase() === wanted.toLowerCase());
}

/** Returns the files in the assistant's own folder for which there is no Model. */
export function listAssistantModels({ store, control }: ModelListDependencies): AssistantModel[] {
  const models = store.list("Model");
  const names = new Set(models.map(({ metadata }) => metadata.name));
  const paths = new Set(models.map(({ spec }) => getLocalPath(spec)));
  return control
    .otherModels()
    .filter(({ id, path }) => !names.has(id) && (path === null || !paths.has(path)))
    .toSorted((a, b) => (a.id < b.id ? -1 : 1));
}

function getLocalPath(spec: ModelSpec): string | undefined {
  const parsed = parseModelSource(spec.source);
  return "source" in parsed && parsed.source.type === "local" ? parsed.source.path : undefined;
}
