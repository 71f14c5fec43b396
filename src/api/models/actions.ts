import type { FastifyReply, FastifyRequest } from "fastify";
import { timestamp } from "../../base/clock.ts";
import { ConflictError } from "../../base/errors.ts";
import type { ModelSpec } from "../../resources/model.ts";
import { RETRIED_AT, type Resource, STARTED_AT } from "../../resources/resource.ts";
import type { ModelDryRunReport, ModelView } from "../../resources/wire/models.ts";
import type { ApplyIntent } from "../../store/store.ts";
import type { WriteQuery } from "../app-writes.ts";
import type { ApiContext } from "../context.ts";
import { actorOf, requestSignal } from "../request-scope.ts";
import { isObserved } from "../views/model-state.ts";
import { ownModelView } from "../views/models.ts";
import { type FoundModel, findModel, manifestOf } from "./find-model.ts";
import { answerUnchanged, type ModelWriteRequest, writeModel } from "./writes.ts";

type Answer = ModelView | ModelDryRunReport;

/** Makes the Model where there is none; has one that is there, or was cut off, looked at anew. */
export async function downloadModel(
  context: ApiContext,
  request: FastifyRequest,
  reply: FastifyReply,
  id: string,
  query: WriteQuery,
): Promise<Answer> {
  const { clock, control } = context;
  const found = findModel(context, id);
  if (found.type === "assistant") return onDiskAlready(reply, found.file, query);
  const until = "downloaded";
  if (found.type !== "resource") {
    const intent = createIntent(context, request, found);
    await control.checkSource(intent.spec, requestSignal(reply, context.closing));
    const wouldDo = `create model "${intent.name}" and download it`;
    return writeModel(context, reply, { intent, wouldDo, until }, query);
  }
  const { model } = found;
  const { name } = model.metadata;
  assertNotDeleting(model);
  const isUnderWay = !isObserved(model) || control.modelProgress(name) !== undefined;
  const write = {
    intent: changeIntent(
      request,
      model,
      query,
      isUnderWay ? {} : { annotations: { [RETRIED_AT]: timestamp(clock.now()) } },
    ),
    wouldDo: isUnderWay
      ? `change nothing of model "${name}": its download is under way`
      : `download model "${name}", or verify it where it is there`,
    until,
  } as const;
  return isUnderWay
    ? answerUnchanged(context, reply, model, { ...write, status: 202 }, query)
    : writeModel(context, reply, write, query);
}

/** Has it loaded: makes the Model where there is none, and puts it before all others where memory is short. */
export async function startModel(
  context: ApiContext,
  request: FastifyRequest,
  reply: FastifyReply,
  id: string,
  query: WriteQuery,
): Promise<Answer> {
  const found = findModel(context, id);
  const annotations = { [STARTED_AT]: startTime(context) };
  const until = "running";
  if (found.type !== "resource") {
    if (found.type === "assistant" && staysLoaded(found)) {
      return onDiskAlready(reply, found.file, query);
    }
    const { spec, ...intent } = createIntent(context, request, found, annotations);
    await context.control.checkSource(spec, requestSignal(reply, context.closing));
    const wouldDo = `create model "${intent.name}" and start it`;
    const started = { ...intent, spec: { ...spec, running: true } };
    return writeModel(context, reply, { intent: started, wouldDo, until }, query);
  }
  const { model } = found;
  const { name } = model.metadata;
  assertNotDeleting(model);
  const write = (change: Change, wouldDo: string): ModelWriteRequest => ({
    intent: changeIntent(request, model, query, change),
    wouldDo: `${wouldDo} model "${name}"`,
    until,
  });
  const isRunning =
    model.spec.running === true && isObserved(model) && model.status.phase === "running";
  return isRunning
    ? answerUnchanged(
        context,
        reply,
        model,
        { ...write({}, "change nothing of"), status: 200 },
        query,
      )
    : writeModel(context, reply, write({ spec: { running: true }, annotations }, "start"), query);
}

type Change = Pick<Partial<ApplyIntent<"Model">>, "spec" | "annotations">;

/** After every other start, also two at once or with a clock that was set back: the last one comes first. */
function startTime({ store, clock }: ApiContext): string {
  const others = store
    .list("Model")
    .map(({ metadata }) => Date.parse(metadata.annotations[STARTED_AT] ?? ""))
    .filter((time) => time < TIME_MAX_MS);
  return timestamp(others.reduce((time, other) => Math.max(time, other + 1), clock.now()));
}

/** Of years with four digits, by which times can be compared as texts. */
const TIME_MAX_MS = Date.UTC(10_000, 0) - 1;

/** As `start` and `stop` of an app write: fields of files stay theirs, unless forced. */
export function changeIntent(
  request: FastifyRequest,
  model: Resource<"Model">,
  query: WriteQuery,
  { spec = {}, annotations }: Change,
): ApplyIntent<"Model"> {
  return {
    kind: "Model",
    name: model.metadata.name,
    manager: "api",
    actor: actorOf(request),
    mode: "merge",
    spec,
    ...(annotations === undefined ? {} : { annotations }),
    force: query.force === true,
    updateOnly: true,
  };
}

function createIntent(
  context: ApiContext,
  request: FastifyRequest,
  found: Exclude<FoundModel, { type: "resource" }>,
  annotations: Readonly<Record<string, string>> = {},
): ApplyIntent<"Model"> & { readonly spec: ModelSpec } {
  const { metadata, spec } = manifestOf(context, found);
  return {
    kind: "Model",
    name: metadata.name,
    manager: "api",
    actor: actorOf(request),
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
    hint: "wait until it is gone, then try again",
  });
}

/** Others that are loaded go when nobody has used them for a while. */
function staysLoaded({ file }: Extract<FoundModel, { type: "assistant" }>): boolean {
  return file.state === "resident" && (file.pinned || file.path === null);
}

/** A file of the assistant's own is there, and nothing is to be done about it. */
function onDiskAlready(
  reply: FastifyReply,
  file: Extract<FoundModel, { type: "assistant" }>["file"],
  query: WriteQuery,
): Answer {
  reply.code(200);
  if (query.dry_run === true) {
    const message = `would change nothing of model "${file.id}"`;
    return { dry_run: true, kind: "Model", name: file.id, message, changes: [], plan: null };
  }
  reply.header("x-berth-changed", "false");
  return ownModelView(file);
}
