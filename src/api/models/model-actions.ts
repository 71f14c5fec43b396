import type { FastifyReply, FastifyRequest } from "fastify";
import { timestamp } from "../../base/clock.ts";
import { ConflictError } from "../../base/errors.ts";
import type { ModelSpec } from "../../resources/model-spec.ts";
import {
  RETRIED_AT_ANNOTATION,
  type Resource,
  STARTED_AT_ANNOTATION,
} from "../../resources/resource.ts";
import type { ModelDryRunReport, ModelView } from "../../resources/wire/models.ts";
import type { ApplyIntent } from "../../store/store.ts";
import type { ApiContext } from "../api-context.ts";
import type { WriteQuery } from "../app-writes.ts";
import { createRequestSignal, getActor } from "../request-parameters.ts";
import { isObserved } from "../views/model-state.ts";
import { assistantModelView } from "../views/models.ts";
import { createModelManifest, type FoundModel, findModel } from "./find-model.ts";
import { type ModelWriteRequest, respondUnchanged, writeModel } from "./model-writes.ts";

type ModelWriteResult = ModelView | ModelDryRunReport;

/** Creates the Model if there is none. Otherwise verifies its files, or resumes an interrupted download. */
export async function downloadModel(
  context: ApiContext,
  request: FastifyRequest,
  reply: FastifyReply,
  id: string,
  query: WriteQuery,
): Promise<ModelWriteResult> {
  const { clock, control } = context;
  const found = findModel(context, id);
  if (found.type === "assistant") return respondAlreadyOnDisk(reply, found.file, query);
  const until = "downloaded";
  if (found.type !== "resource") {
    const intent = createNewModelIntent(context, request, found);
    await control.checkSource(intent.spec, createRequestSignal(reply, context.closing));
    const wouldDo = `create model "${intent.name}" and download it`;
    return writeModel(context, reply, { intent, wouldDo, until }, query);
  }
  const { model } = found;
  const { name } = model.metadata;
  assertNotDeleting(model);
  const isUnderWay = !isObserved(model) || control.modelProgress(name) !== undefined;
  const write = {
    intent: createMergeIntent(
      request,
      model,
      query,
      isUnderWay ? {} : { annotations: { [RETRIED_AT_ANNOTATION]: timestamp(clock.now()) } },
    ),
    wouldDo: isUnderWay
      ? `leave model "${name}" unchanged: its download is in progress`
      : `download model "${name}", or verify its files if they are there`,
    until,
  } as const;
  return isUnderWay
    ? respondUnchanged(context, reply, model, { ...write, status: 202 }, query)
    : writeModel(context, reply, write, query);
}

/**
 * Sets `running: true` in the spec of a model, and creates a Model resource if there is none. If memory is short,
 * the model that was started last has priority over all others.
 */
export async function startModel(
  context: ApiContext,
  request: FastifyRequest,
  reply: FastifyReply,
  id: string,
  query: WriteQuery,
): Promise<ModelWriteResult> {
  const found = findModel(context, id);
  const annotations = { [STARTED_AT_ANNOTATION]: chooseStartTime(context) };
  const until = "running";
  if (found.type !== "resource") {
    if (found.type === "assistant" && isKeptLoaded(found)) {
      return respondAlreadyOnDisk(reply, found.file, query);
    }
    const { spec, ...intent } = createNewModelIntent(context, request, found, annotations);
    await context.control.checkSource(spec, createRequestSignal(reply, context.closing));
    const wouldDo = `create model "${intent.name}" and start it`;
    const started = { ...intent, spec: { ...spec, running: true } };
    return writeModel(context, reply, { intent: started, wouldDo, until }, query);
  }
  const { model } = found;
  const { name } = model.metadata;
  assertNotDeleting(model);
  const write = (change: ModelPatch, wouldDo: string): ModelWriteRequest => ({
    intent: createMergeIntent(request, model, query, change),
    wouldDo,
    until,
  });
  const isRunning =
    model.spec.running === true && isObserved(model) && model.status.phase === "running";
  return isRunning
    ? respondUnchanged(
        context,
        reply,
        model,
        { ...write({}, `leave model "${name}" unchanged`), status: 200 },
        query,
      )
    : writeModel(
        context,
        reply,
        write({ spec: { running: true }, annotations }, `start model "${name}"`),
        query,
      );
}

type ModelPatch = Pick<Partial<ApplyIntent<"Model">>, "spec" | "annotations">;

/**
 * Returns the start time for a model, which is later than that of every other model even if starts are concurrent or
 * the clock was set back. The model that was started last has priority.
 */
function chooseStartTime({ store, clock }: ApiContext): string {
  const others = store
    .list("Model")
    .map(({ metadata }) => Date.parse(metadata.annotations[STARTED_AT_ANNOTATION] ?? ""))
    .filter((time) => time < TIME_MAX_MS);
  return timestamp(others.reduce((time, other) => Math.max(time, other + 1), clock.now()));
}

/**
 * The last millisecond of the year 9999. Annotations with later start times are ignored, because timestamps are
 * compared as texts, which works only if all years have four digits.
 */
const TIME_MAX_MS = Date.UTC(10_000, 0) - 1;

/**
 * Returns an ApplyIntent that merges the given fields into a Model. Without `force`, the store refuses to change fields
 * that spec files own.
 */
export function createMergeIntent(
  request: FastifyRequest,
  model: Resource<"Model">,
  query: WriteQuery,
  { spec = {}, annotations }: ModelPatch,
): ApplyIntent<"Model"> {
  return {
    kind: "Model",
    name: model.metadata.name,
    manager: "api",
    actor: getActor(request),
    mode: "merge",
    spec,
    ...(annotations === undefined ? {} : { annotations }),
    force: query.force === true,
    updateOnly: true,
  };
}

function createNewModelIntent(
  context: ApiContext,
  request: FastifyRequest,
  found: Exclude<FoundModel, { type: "resource" }>,
  annotations: Readonly<Record<string, string>> = {},
): ApplyIntent<"Model"> & { readonly spec: ModelSpec } {
  const { metadata, spec } = createModelManifest(context, found);
  return {
    kind: "Model",
    name: metadata.name,
    manager: "api",
    actor: getActor(request),
    mode: "replace",
    spec,
    labels: metadata.labels ?? {},
    annotations: { ...metadata.annotations, ...annotations },
    createOnly: true,
  };
}

export function assertNotDeleting(model: Resource<"Model">): void {
  if (model.metadata.deletionTimestamp === null) return;
  throw new ConflictError("conflict", `model "${model.metadata.name}" is being deleted`, {
    hint: "wait until the Model is gone, then try again",
  });
}

/** Returns true for a model that stays loaded. Other models are unloaded when they are idle. */
function isKeptLoaded({ file }: Extract<FoundModel, { type: "assistant" }>): boolean {
  return file.state === "resident" && (file.pinned || file.path === null);
}

/** Responds that nothing changes, because the model is a file in the assistant's own folder. */
function respondAlreadyOnDisk(
  reply: FastifyReply,
  file: Extract<FoundModel, { type: "assistant" }>["file"],
  query: WriteQuery,
): ModelWriteResult {
  reply.code(200);
  if (query.dry_run === true) {
    const message = `would leave model "${file.id}" unchanged`;
    return { dry_run: true, kind: "Model", name: file.id, message, changes: [], plan: null };
  }
  reply.header("x-berth-changed", "false");
  return assistantModelView(file);
}
