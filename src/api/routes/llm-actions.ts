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

/** What is done to models: each is a write of desired state. */
export function llmActionRoutes(api: Api, context: ApiContext): void {
  const tags = ["models"];
  const writeResponses = responses({ 200: WriteResponse, 202: WriteResponse });
  const download = {
    summary: "Bring a model onto the disk",
    description:
      "`:id` is a name, or a repository as org%2Fname or org%2Fname:QUANTIZATION; one that no Model has gets a Model. What is there is verified again, and what was cut is gone on with.",
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

  // Some proxies decode the slash on the way.
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
        summary: "Load a model into memory, downloaded first where it has to be",
        description:
          "It comes before all others where memory is short: those that do not fit beside it leave. 200 where it runs already.",
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
        summary: "Take the running models, or the given one, out of memory",
        description: "Answers the models that it stops; 200 where none is to run.",
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
