import { Type } from "typebox";
import { ConflictError } from "../../base/errors.ts";
import { modelPhases } from "../../resources/model-status.ts";
import type { Resource } from "../../resources/resource.ts";
import {
  ModelDetails,
  type ModelDryRunReport,
  ModelList,
  ModelPlanView,
  type ModelView,
} from "../../resources/wire/models.ts";
import { Component, closed, OneOf } from "../../resources/wire/wire-schema.ts";
import type { Api, ApiContext } from "../api-context.ts";
import { createModelManifest, findKnownModel } from "../models/find-model.ts";
import { getModelView, listModels } from "../models/list-models.ts";
import { waitForModelState } from "../models/model-writes.ts";
import { waitForModel } from "../models/wait-for-model.ts";
import { createRequestSignal, getActor, parseWaitTimeoutMs } from "../request-parameters.ts";
import { NoQuery, responses, writeQueryFields } from "../route-schemas.ts";
import {
  assistantModelView,
  catalogModelView,
  modelDetails,
  modelPlanView,
  unmanagedModelDetails,
} from "../views/models.ts";

const EVENTS_SHOWN = 20;

const IdParams = Type.Object({ id: Type.String() }, closed);

const ListQuery = Type.Object(
  {
    limit: Type.Optional(
      Type.Integer({ minimum: 1, maximum: 10_000, description: "default: every model" }),
    ),
    offset: Type.Optional(Type.Integer({ minimum: 0, maximum: 1_000_000 })),
    status: Type.Optional(OneOf(modelPhases)),
  },
  closed,
);

const DetailsQuery = Type.Object(
  {
    wait: Type.Optional(
      Type.Unsafe<"true" | "false" | "deleted">({
        type: "string",
        enum: ["true", "false", "deleted"],
        description:
          "true: respond when the model is as its spec requests, or has failed; deleted: respond 404 when the model is gone",
      }),
    ),
    timeout: writeQueryFields.timeout,
  },
  closed,
);

const DeleteQuery = Type.Object(
  {
    ...writeQueryFields,
    files: Type.Optional(
      Type.Boolean({
        description:
          "true: the model's files are deleted too, unless another Model uses them; default: they are kept within the disk budget",
      }),
    ),
  },
  closed,
);

const WriteResponse = Component<ModelView | ModelDryRunReport>("ModelWriteAnswer");

/** Routes that list, show and delete models. */
export function llmRoutes(api: Api, context: ApiContext): void {
  const { store, control } = context;
  const tags = ["models"];

  api.get(
    "/api/llm/models",
    {
      config: { access: "read" },
      schema: {
        summary: "List language models",
        description:
          "Every Model by name, then files in the assistant's own folder, then the other entries of the catalog. total counts all models that match the filter.",
        tags,
        querystring: ListQuery,
        response: responses({ 200: ModelList }),
      },
    },
    async (request) => {
      const { limit, offset = 0, status } = request.query;
      const all = listModels(context).filter(
        (model) => status === undefined || model.status === status,
      );
      const end = limit === undefined ? undefined : offset + limit;
      return { models: all.slice(offset, end), total: all.length };
    },
  );

  api.get(
    "/api/llm/models/:id",
    {
      config: { access: "read" },
      schema: {
        summary: "Show one model",
        tags,
        params: IdParams,
        querystring: DetailsQuery,
        response: responses({ 200: ModelDetails, 202: ModelDetails }),
      },
    },
    async (request, reply) => {
      const { wait, timeout } = request.query;
      const timeoutMs = parseWaitTimeoutMs(timeout);
      const found = findKnownModel(context, request.params.id);
      switch (found.type) {
        case "catalog":
          return unmanagedModelDetails(catalogModelView(found.entry), found.entry.spec);
        case "assistant":
          return unmanagedModelDetails(assistantModelView(found.file), null);
        case "resource":
          break;
      }
      const { model } = found;
      if (wait !== undefined && wait !== "false") {
        const until = wait === "true" ? "settled" : "deleted";
        await waitForModelState(context, reply, model, until, timeoutMs);
      }
      return getModelDetails(store.get("Model", model.metadata.name) ?? model);
    },
  );

  api.get(
    "/api/llm/models/:id/plan",
    {
      config: { access: "read" },
      schema: {
        summary: "Plan the next reconcile of a model",
        description: "For an id without a Model, the response shows what a download would do.",
        tags,
        params: IdParams,
        querystring: NoQuery,
        response: responses({ 200: ModelPlanView }),
      },
    },
    async (request, reply) => {
      const found = findKnownModel(context, request.params.id);
      const signal = createRequestSignal(reply, context.closing);
      if (found.type === "resource") {
        const { name } = found.model.metadata;
        return modelPlanView(await control.planModel(name, undefined, signal));
      }
      const { metadata, spec } = createModelManifest(context, found);
      return modelPlanView(await control.planModel(metadata.name, spec, signal));
    },
  );

  api.delete(
    "/api/llm/models/:id",
    {
      config: { access: "write" },
      schema: {
        summary: "Delete a model",
        description:
          "The model's files are kept within the disk budget for model files, unless files=true.",
        tags,
        params: IdParams,
        querystring: DeleteQuery,
        response: responses({ 200: WriteResponse, 202: WriteResponse }),
      },
    },
    async (request, reply) => {
      const { wait, timeout, force, dry_run, files } = request.query;
      const timeoutMs = parseWaitTimeoutMs(timeout);
      const model = requireResource(request.params.id);
      const { name, uid, generation } = model.metadata;
      const before = getModelView(context, model);
      const intent = {
        actor: getActor(request),
        manager: "api",
        force: force === true,
        deleteFiles: files === true,
      };
      if (dry_run === true) {
        store.delete("Model", name, { ...intent, dryRun: true });
        const fate = files === true ? "delete its files" : "keep its files within the disk budget";
        const message = `would delete model "${name}" and ${fate}`;
        return {
          dry_run: true as const,
          kind: "Model",
          name,
          message,
          changes: [],
          plan: null,
        };
      }
      store.delete("Model", name, intent);
      control.wake("Model", name);
      reply.code(202);
      if (wait === true) {
        const signal = createRequestSignal(reply, context.closing);
        const target = { name, uid, generation, until: "deleted" } as const;
        const outcome = await waitForModel(context, target, timeoutMs, signal);
        if (outcome.type === "deleted") reply.code(200);
        else reply.header("x-berth-wait", "timed-out");
      }
      const now = store.get("Model", name);
      return now?.metadata.uid === uid
        ? getModelView(context, now)
        : {
            ...before,
            status: "deleting" as const,
            ready: false,
            running: false,
            message: "deleted",
            error: null,
          };
    },
  );

  function getModelDetails(model: Resource<"Model">): ModelDetails {
    const { name } = model.metadata;
    const events = store.events.list({ kind: "Model", name, limit: EVENTS_SHOWN });
    return modelDetails(getModelView(context, model), model, events);
  }

  /**
   * Returns the Model with this id. Throws the errors of `findKnownModel`, and ConflictError `wrong_state` if the id
   * does not belong to a Model.
   */
  function requireResource(id: string): Resource<"Model"> {
    const found = findKnownModel(context, id);
    if (found.type === "resource") return found.model;
    if (found.type === "catalog") {
      throw new ConflictError(
        "wrong_state",
        `model "${found.entry.metadata.name}" is an entry of the catalog that is not downloaded`,
      );
    }
    throw new ConflictError(
      "wrong_state",
      `model "${found.file.id}" is a file in the assistant's own folder, which Berth does not change`,
      { hint: "remove the file there" },
    );
  }
}
