import { isAbsolute } from "node:path";
import type { FastifyInstance } from "fastify";
import { type Static, Type } from "typebox";
import { AssistantError } from "../../assistant-error.ts";
import {
  type KnownModels,
  MODEL_ID_LENGTH_MAX,
  type ModelRegistration,
  modelIdPattern,
} from "../models/known-models.ts";
import { computeMemoryNeed } from "../models/memory-need.ts";
import type { ModelFactsCache } from "../models/model-facts-cache.ts";
import type { Residency } from "../models/residency.ts";
import { type ModelInspectionView, type StateView, toControlModelView } from "./state-view.ts";

const id = Type.String({ pattern: modelIdPattern, maxLength: MODEL_ID_LENGTH_MAX });
const path = Type.String({ minLength: 1, maxLength: 4_096 });
const size = {
  /** Of one sequence. */
  context_tokens: Type.Optional(Type.Integer({ minimum: 16, maximum: 100_000_000 })),
  sequences: Type.Optional(Type.Integer({ minimum: 1, maximum: 256 })),
};

const LoadBody = Type.Object(
  {
    id,
    /** Of the file; without one the model is known already, and nothing but its id may be said of it. */
    path: Type.Optional(path),
    ...size,
    /** What it may take, where that is less than what is free; one that takes more is loaded anew. */
    memory_bytes_max: Type.Optional(Type.Integer({ minimum: 1 })),
    /** Further names for clients. */
    aliases: Type.Optional(Type.Array(id, { maxItems: 16 })),
    /** Kept in memory, and brought back after a crash, until it is unloaded; default: true. */
    pinned: Type.Optional(Type.Boolean()),
    gpu: Type.Optional(Type.Union([Type.Boolean(), Type.Literal("auto")])),
  },
  { additionalProperties: false },
);
type LoadBody = Static<typeof LoadBody>;

const InspectBody = Type.Object({ id, path, ...size }, { additionalProperties: false });
type InspectBody = Static<typeof InspectBody>;

const UnloadBody = Type.Object(
  { id: Type.String({ maxLength: MODEL_ID_LENGTH_MAX }) },
  { additionalProperties: false },
);
type UnloadBody = Static<typeof UnloadBody>;

export interface ControlModelRoutesOptions {
  readonly known: KnownModels;
  readonly facts: ModelFactsCache;
  readonly residency: Residency;
  readonly state: () => Omit<StateView, "models">;
}

/** What there is, and what is done with models: GET /state, POST /models/load, /models/inspect, /models/unload. */
export function controlModelRoutes(
  http: FastifyInstance,
  options: ControlModelRoutesOptions,
): void {
  const { known, facts, residency } = options;
  const stateNow = async (): Promise<StateView> => ({
    ...options.state(),
    models: (await residency.states()).map(toControlModelView),
  });

  http.get("/state", stateNow);

  http.post<{ Body: LoadBody }>(
    "/models/load",
    { schema: { body: LoadBody } },
    async ({ body, raw }) => {
      assertLoadable(body);
      if (body.path !== undefined)
        await known.register(toRegistration({ ...body, path: body.path }));
      const gone = new AbortController();
      const onClose = () => gone.abort();
      raw.socket.once("close", onClose);
      try {
        await residency.load(body.id, gone.signal);
      } finally {
        // Callers keep their connection for many calls.
        raw.socket.off("close", onClose);
      }
      return stateNow();
    },
  );

  http.post<{ Body: InspectBody }>(
    "/models/inspect",
    { schema: { body: InspectBody } },
    async ({ body }): Promise<ModelInspectionView> => {
      const model = await known.describe(toRegistration(body));
      const said = await facts.get(model);
      if ((model.contextTokens ?? 0) > said.trainedContextTokens)
        throw new AssistantError(
          "model_unusable",
          `model "${model.id}" was trained with a context of ${said.trainedContextTokens} tokens, and ${model.contextTokens} are asked for; ask for at most ${said.trainedContextTokens}`,
        );
      return {
        architecture: said.architecture,
        name: said.name ?? null,
        parameters: said.parameters ?? null,
        quantization: said.quantization ?? null,
        context_tokens: said.trainedContextTokens,
        kind: said.kind,
        memory_bytes: computeMemoryNeed(said, model),
      };
    },
  );

  http.post<{ Body: UnloadBody }>(
    "/models/unload",
    { schema: { body: UnloadBody } },
    async ({ body }) => {
      known.unregister(body.id);
      await residency.unload(body.id);
      return stateNow();
    },
  );
}

/** Throws for what nothing would come of, rather than leaving it out in silence. */
function assertLoadable(body: LoadBody): void {
  if (body.gpu === true)
    throw new AssistantError(
      "model_unusable",
      `model "${body.id}" is to run on a GPU, and this assistant computes on the processor only; leave gpu at auto`,
      { param: "gpu" },
    );
  const { id: _id, path: file, ...settings } = body;
  const [setting] = Object.keys(settings);
  if (file === undefined && setting !== undefined)
    throw new AssistantError(
      "invalid_request",
      `${setting} needs the path of the file too: a model that is known already is loaded as it was registered`,
      { param: setting },
    );
}

function toRegistration(
  body: Omit<LoadBody, "path"> & { readonly path: string },
): ModelRegistration {
  if (!isAbsolute(body.path))
    throw new AssistantError(
      "invalid_request",
      "path has to be the absolute path of a file: the daemon may have been started anywhere",
      { param: "path" },
    );
  return {
    id: body.id,
    path: body.path,
    aliases: body.aliases ?? [],
    isPinned: body.pinned ?? true,
    contextTokens: body.context_tokens,
    sequences: body.sequences,
    memoryBytesMax: body.memory_bytes_max,
  };
}
