import type { FastifyReply, FastifyRequest } from "fastify";
import { BerthError, ConflictError } from "../../base/errors.ts";
import type { Resource } from "../../resources/resource.ts";
import type { ModelList, ModelStopDryRun } from "../../resources/wire/models.ts";
import type { ApplyIntent } from "../../store/store.ts";
import type { ApiContext } from "../api-context.ts";
import type { WriteQuery } from "../app-writes.ts";
import { parseWaitTimeoutMs } from "../request-parameters.ts";
import { findKnownModel } from "./find-model.ts";
import { getModelView } from "./list-models.ts";
import { assertNotDeleting, createMergeIntent } from "./model-actions.ts";
import { dryRunModelWrite, waitForModelState } from "./model-writes.ts";

/**
 * Unloads the given model, or all models whose spec has `running: true`. Writes either all of these changes or none.
 */
export async function stopModels(
  context: ApiContext,
  request: FastifyRequest,
  reply: FastifyReply,
  id: string | undefined,
  query: WriteQuery,
): Promise<ModelList | ModelStopDryRun> {
  const { store, clock, control } = context;
  const timeoutMs = parseWaitTimeoutMs(query.timeout);
  const models = id === undefined ? listModelsToRun(context) : findModelsToStop(context, id);
  const intents = models
    .filter(({ spec }) => spec.running === true)
    .map((model) => createMergeIntent(request, model, query, { spec: { running: false } }));
  assertAllStoppable(context, intents);
  reply.code(200);
  if (query.dry_run === true) {
    const reports = [];
    for (const intent of intents) {
      reports.push(
        await dryRunModelWrite(context, reply, { intent, wouldDo: `stop model "${intent.name}"` }),
      );
    }
    return { dry_run: true, reports };
  }
  store.batch(() => {
    for (const intent of intents) store.apply(intent);
  });
  for (const { name } of intents) control.wake("Model", name);
  if (intents.length > 0) reply.code(202);
  else reply.header("x-berth-changed", "false");
  const now = () => models.map((model) => store.get("Model", model.metadata.name) ?? model);
  if (query.wait === true) {
    const deadlineMs = clock.now() + timeoutMs;
    for (const model of now()) {
      const leftMs = Math.max(0, deadlineMs - clock.now());
      await waitForModelState(context, reply, model, "stopped", leftMs);
      if (reply.statusCode === 202) break;
    }
  }
  const items = now().map((model) => getModelView(context, model));
  return { models: items, total: items.length };
}

function listModelsToRun({ store }: ApiContext): Resource<"Model">[] {
  return store
    .list("Model")
    .filter(({ metadata, spec }) => spec.running === true && metadata.deletionTimestamp === null);
}

function findModelsToStop(context: ApiContext, id: string): Resource<"Model">[] {
  const found = findKnownModel(context, id);
  if (found.type === "resource") {
    assertNotDeleting(found.model);
    return [found.model];
  }
  if (found.type === "assistant" && found.file.state !== "unloaded") {
    throw new ConflictError(
      "wrong_state",
      `model "${found.file.id}" is the assistant's own: a request loaded it, or the command line of the assistant`,
      { hint: "the assistant unloads the model when it has been idle for a while" },
    );
  }
  return [];
}

/**
 * Throws ConflictError `field_owned` before anything is written if spec files own `running` of any of the models. The
 * message names all of these fields.
 */
function assertAllStoppable({ store }: ApiContext, intents: readonly ApplyIntent<"Model">[]): void {
  const refusals: BerthError[] = [];
  for (const intent of intents) {
    try {
      store.apply({ ...intent, dryRun: true });
    } catch (error) {
      if (!(error instanceof BerthError) || error.code !== "field_owned") throw error;
      refusals.push(error);
    }
  }
  const [first] = refusals;
  if (!first) return;
  const message = refusals.map((refusal) => refusal.message).join("; ");
  throw new ConflictError("field_owned", message, first.hint ? { hint: first.hint } : {});
}
