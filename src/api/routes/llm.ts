import { Type } from "typebox";
import { BerthError } from "../../base/errors.ts";
import { ModelList, ModelView, StartModelBody } from "../../resources/wire/models.ts";
import { closed } from "../../resources/wire/schema.ts";
import { answers, EmptyBody, NoQuery } from "../answers.ts";
import type { Api, ApiContext } from "../context.ts";
import { modelView } from "../views/models.ts";

/** A repository id, such as org/name, or the name of a Model resource. */
const modelIdPattern = "^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*$";

const StopBody = Type.Unsafe<{ model?: string } | null>({
  type: ["object", "null"],
  properties: { model: { type: "string", minLength: 1, maxLength: 1024 } },
  additionalProperties: false,
});

/** Language models. Listing works; what acts on a model comes with its controller. */
export function llmRoutes(api: Api, context: ApiContext): void {
  const { store } = context;
  const tags = ["models"];

  api.get(
    "/api/llm/models",
    {
      config: { access: "read" },
      schema: {
        summary: "List language models",
        tags,
        querystring: NoQuery,
        response: answers({ 200: ModelList }),
      },
    },
    async () => {
      const models = store.list("Model").map((model) => modelView(model, undefined, false));
      return { models, total: models.length };
    },
  );

  api.post(
    "/api/llm/models/:id/download",
    {
      config: { access: "write" },
      schema: {
        summary: "Download a model",
        description: "`:id` is URL-encoded, as org%2Fname. Not there yet: answers 501.",
        tags,
        params: Type.Object({ id: Type.String() }, closed),
        body: EmptyBody,
        querystring: NoQuery,
        response: answers({ 202: ModelView }),
      },
    },
    async (request) => {
      checkModelId(request.params.id);
      throw notThereYet("downloading");
    },
  );

  api.post(
    "/api/llm/start",
    {
      config: { access: "write" },
      schema: {
        summary: "Start a model",
        description: "Not there yet: answers 501.",
        tags,
        body: StartModelBody,
        querystring: NoQuery,
        response: answers({ 202: ModelView }),
      },
    },
    async (request) => {
      checkModelId(request.body.model);
      throw notThereYet("starting");
    },
  );

  api.post(
    "/api/llm/stop",
    {
      config: { access: "write" },
      schema: {
        summary: "Stop the running model",
        description: "Not there yet: answers 501.",
        tags,
        body: StopBody,
        querystring: NoQuery,
        response: answers({ 202: ModelView }),
      },
    },
    async (request) => {
      if (request.body?.model !== undefined) checkModelId(request.body.model);
      throw notThereYet("stopping");
    },
  );
}

function checkModelId(id: string): void {
  if (id.length <= 1024 && new RegExp(modelIdPattern).test(id) && !id.includes("..")) return;
  throw new BerthError(
    "invalid_request",
    `${JSON.stringify(id.slice(0, 80))} is not the id of a model`,
    { hint: "write it as org/name (org%2Fname in a path)" },
  );
}

function notThereYet(verb: string): BerthError {
  return new BerthError("not_implemented", `${verb} models is not there yet`, {
    hint: "Model resources are stored and listed already",
  });
}
