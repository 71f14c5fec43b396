import { Type } from "typebox";
import {
  type ModelDryRunReport,
  type ModelList,
  type ModelStopDryRun,
  type ModelView,
  StartModelBody,
  StopModelBody,
} from "../../resources/wire/models.ts";
import { Component, closed } from "../../resources/wire/wire-schema.ts";
import type { Api, ApiContext } from "../api-context.ts";
import { downloadModel, startModel } from "../models/model-actions.ts";
import { stopModels } from "../models/stop-models.ts";
import { EmptyBody, responses, WriteQueryParams } from "../route-schemas.ts";

const WriteResponse = Component<ModelView | ModelDryRunReport>("ModelWriteAnswer");
const StopResponse = Component<ModelList | ModelStopDryRun>("ModelStopAnswer");

const IdParams = Type.Object({ id: Type.String() }, closed);
const RepositoryParams = Type.Object({ id: Type.String(), repository: Type.String() }, closed);

/** Routes for actions on models. Each action writes desired state. */
export function llmActionRoutes(api: Api, context: ApiContext): void {
  const tags = ["models"];
  const writeResponses = responses({ 200: WriteResponse, 202: WriteResponse });
  const download = {
    summary: "Download a model",
    description:
      "`:id` is a name, or a repository as org%2Fname or org%2Fname:QUANTIZATION; a Model is created if there is none. Existing files are verified again, and interrupted downloads are resumed.",
    tags,
    body: EmptyBody,
    querystring: WriteQueryParams,
    response: writeResponses,
  } as const;

  api.post(
    "/api/llm/models/:id/download",
    { config: { access: "write" }, schema: { ...download, params: IdParams } },
    async (request, reply) =>
      downloadModel(context, request, reply, request.params.id, request.query),
  );

  // Some proxies decode the %2F in a repository id to a slash, so this route accepts the id in two segments.
  api.post(
    "/api/llm/models/:id/:repository/download",
    { config: { access: "write" }, schema: { ...download, params: RepositoryParams, hide: true } },
    async (request, reply) => {
      const { id, repository } = request.params;
      return downloadModel(context, request, reply, `${id}/${repository}`, request.query);
    },
  );

  api.post(
    "/api/llm/start",
    {
      config: { access: "write" },
      schema: {
        summary: "Load a model into memory, and download it first if necessary",
        description:
          "The model has priority if memory is short: models that do not fit in addition to it are unloaded. 200 if the model is running already.",
        tags,
        body: StartModelBody,
        querystring: WriteQueryParams,
        response: writeResponses,
      },
    },
    async (request, reply) =>
      startModel(context, request, reply, request.body.model, request.query),
  );

  api.post(
    "/api/llm/stop",
    {
      config: { access: "write" },
      schema: {
        summary: "Unload the given model, or all running ones",
        description:
          "Returns the models that the call stops. The status is 202 while models stop, and 200 if no model has to stop or if `wait` saw all of them stop.",
        tags,
        body: StopModelBody,
        querystring: WriteQueryParams,
        response: responses({ 200: StopResponse, 202: StopResponse }),
      },
    },
    async (request, reply) =>
      stopModels(context, request, reply, request.body?.model, request.query),
  );
}
