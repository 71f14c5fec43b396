import type { FastifyReply } from "fastify";
import { ConflictError, NotFoundError } from "../../base/errors.ts";
import type { Resource } from "../../resources/resource.ts";
import type { ModelDryRunReport, ModelView } from "../../resources/wire/models.ts";
import type { ApplyIntent } from "../../store/store.ts";
import type { ApiContext } from "../api-context.ts";
import { setChangedHeader, type WriteQuery } from "../app-writes.ts";
import { createRequestSignal, parseWaitTimeoutMs } from "../request-parameters.ts";
import { modelPlanView } from "../views/models.ts";
import { fieldChangeView } from "../views/plans.ts";
import { getModelView } from "./list-models.ts";
import { type ModelWaitTarget, toWaitError, waitForModel } from "./wait-for-model.ts";

/** A write of one Model's desired state, with the text that describes the write in a dry run. */
export interface ModelWriteRequest {
  readonly intent: ApplyIntent<"Model">;
  /** Completes the message "would ..." of a dry run, such as "start model x". */
  readonly wouldDo: string;
  readonly until: ModelWaitTarget["until"];
}

/**
 * Writes a Model for a route, or only plans the write if the request is a dry run. Waits for the model if the request
 * asks for that, and responds. Throws what `Store.apply` and `waitForModelState` throw.
 */
export async function writeModel(
  context: ApiContext,
  reply: FastifyReply,
  write: ModelWriteRequest,
  query: WriteQuery,
): Promise<ModelView | ModelDryRunReport> {
  const timeoutMs = parseWaitTimeoutMs(query.timeout);
  if (query.dry_run === true) {
    reply.code(200);
    return dryRunModelWrite(context, reply, write);
  }
  const result = context.store.apply(write.intent);
  const { name } = write.intent;
  if (setChangedHeader(reply, result)) context.control.wake("Model", name);
  const model = context.store.get("Model", name) ?? result.resource;
  return respondWithModel(context, reply, model, write.until, query.wait ? timeoutMs : null);
}

/** Returns the changes that a write would make, and what the reconciler would do then. */
export async function dryRunModelWrite(
  context: ApiContext,
  reply: FastifyReply,
  { intent, wouldDo }: Pick<ModelWriteRequest, "intent" | "wouldDo">,
): Promise<ModelDryRunReport> {
  const { resource, changes } = context.store.apply({ ...intent, dryRun: true });
  const signal = createRequestSignal(reply, context.closing);
  const alongside = [{ resource }];
  const plan = await context.control.planModel(intent.name, resource.spec, signal, alongside);
  return {
    dry_run: true,
    kind: "Model",
    name: intent.name,
    message: `would ${wouldDo}`,
    changes: changes.map((change) => fieldChangeView(change)),
    plan: modelPlanView(plan),
  };
}

/** Responds to a completed write: 202 immediately, or 200 when the model has reached the desired state. */
export async function respondWithModel(
  context: ApiContext,
  reply: FastifyReply,
  model: Resource<"Model">,
  until: ModelWaitTarget["until"],
  waitMs: number | null,
): Promise<ModelView> {
  reply.code(202);
  if (waitMs !== null) await waitForModelState(context, reply, model, until, waitMs);
  return getModelView(context, context.store.get("Model", model.metadata.name) ?? model);
}

/**
 * Sets the status of the response: 200 when the model has reached the desired state, 202 after the timeout. Throws
 * NotFoundError if the source does not exist or the Model is gone; `disk_full` if the disk is full;
 * `assistant_unreachable` if the assistant is off; and ConflictError `wrong_state` for every other failure.
 */
export async function waitForModelState(
  context: ApiContext,
  reply: FastifyReply,
  model: Resource<"Model">,
  until: ModelWaitTarget["until"],
  waitMs: number,
): Promise<void> {
  const { name, uid, generation } = model.metadata;
  const signal = createRequestSignal(reply, context.closing);
  const outcome = await waitForModel(context, { name, uid, generation, until }, waitMs, signal);
  switch (outcome.type) {
    case "done":
      reply.code(200);
      return;
    case "timed-out":
      reply.code(202).header("x-berth-wait", "timed-out");
      return;
    case "failed":
      throw toWaitError(name, outcome);
    case "deleted":
      if (until === "deleted") throw new NotFoundError(`there is no model "${name}"`);
      throw new ConflictError("wrong_state", `model "${name}" was deleted in the meantime`);
  }
}

/** Responds to a request that would change nothing, without writing. */
export async function respondUnchanged(
  context: ApiContext,
  reply: FastifyReply,
  model: Resource<"Model">,
  write: ModelWriteRequest & { readonly status: 200 | 202 },
  query: WriteQuery,
): Promise<ModelView | ModelDryRunReport> {
  const timeoutMs = parseWaitTimeoutMs(query.timeout);
  if (query.dry_run === true) return dryRunModelWrite(context, reply, write);
  reply.header("x-berth-changed", "false");
  const waitMs = query.wait === true ? timeoutMs : null;
  const answer = await respondWithModel(context, reply, model, write.until, waitMs);
  if (waitMs === null) reply.code(write.status);
  return answer;
}
