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
import { readChatTemplate } from "../models/read-chat-template.ts";
import type { Residency } from "../models/residency.ts";
import { type ModelInspectionView, type StateView, toControlModelView } from "./state-view.ts";

const id = Type.String({ pattern: modelIdPattern, maxLength: MODEL_ID_LENGTH_MAX });
const path = Type.String({ minLength: 1, maxLength: 4_096 });
const settings = {
  /** The context of one KV-cache sequence in tokens. */
  context_tokens: Type.Optional(Type.Integer({ minimum: 16, maximum: 100_000_000 })),
  sequences: Type.Optional(Type.Integer({ minimum: 1, maximum: 256 })),
  /** The text of a chat template, or the absolute path of a file with one. It replaces the template of the file. */
  chat_template: Type.Optional(Type.String({ minLength: 1, maxLength: 262_144 })),
  deterministic: Type.Optional(Type.Boolean()),
};

const LoadBody = Type.Object(
  {
    id,
    /**
     * The absolute path of the model file. Without a path the model must be registered already, and no other setting
     * may be given.
     */
    path: Type.Optional(path),
    ...settings,
    /** The model's own memory limit in bytes. A resident model that uses more memory is reloaded, within this limit. */
    memory_bytes_max: Type.Optional(Type.Integer({ minimum: 1 })),
    /** Alternative names that clients may use for the model. */
    aliases: Type.Optional(Type.Array(id, { maxItems: 16 })),
    /** True (the default): the model stays in memory until it is unloaded, and is reloaded after a crash. */
    pinned: Type.Optional(Type.Boolean()),
    gpu: Type.Optional(Type.Union([Type.Boolean(), Type.Literal("auto")])),
  },
  { additionalProperties: false },
);
type LoadBody = Static<typeof LoadBody>;

const InspectBody = Type.Object({ id, path, ...settings }, { additionalProperties: false });
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

/** Serves GET /state and POST /models/load, /models/inspect and /models/unload. */
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
        await known.register(await toRegistration({ ...body, path: body.path }));
      const disconnected = new AbortController();
      const onClose = () => disconnected.abort();
      raw.socket.once("close", onClose);
      try {
        await residency.load(body.id, disconnected.signal);
      } finally {
        // The listener for the end of the connection is removed, because the connection stays open and serves many
        // calls.
        raw.socket.off("close", onClose);
      }
      return stateNow();
    },
  );

  http.post<{ Body: InspectBody }>(
    "/models/inspect",
    { schema: { body: InspectBody } },
    async ({ body }): Promise<ModelInspectionView> => {
      const model = await known.describe(await toRegistration(body));
      const modelFacts = await facts.get(model);
      return {
        architecture: modelFacts.architecture,
        name: modelFacts.name ?? null,
        parameters: modelFacts.parameters ?? null,
        quantization: modelFacts.quantization ?? null,
        context_tokens: modelFacts.trainedContextTokens,
        kind: modelFacts.kind,
        memory_bytes: computeMemoryNeed(modelFacts, model),
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

/** Throws `invalid_request` for settings that would have no effect, instead of ignoring them. */
function assertLoadable(body: LoadBody): void {
  if (body.gpu === true)
    throw new AssistantError(
      "model_unusable",
      `model "${body.id}" is to run on a GPU, but this assistant uses only the processor; set gpu to auto`,
      { param: "gpu" },
    );
  const { id: _id, path: file, ...others } = body;
  const [setting] = Object.keys(others);
  if (file === undefined && setting !== undefined)
    throw new AssistantError(
      "invalid_request",
      `${setting} requires the path of the file too: without a path, a model is loaded with its registered settings`,
      { param: setting },
    );
}

async function toRegistration(
  body: Omit<LoadBody, "path"> & { readonly path: string },
): Promise<ModelRegistration> {
  if (!isAbsolute(body.path))
    throw new AssistantError(
      "invalid_request",
      "path must be the absolute path of a file: the daemon may have another working directory",
      { param: "path" },
    );
  return {
    id: body.id,
    path: body.path,
    aliases: body.aliases ?? [],
    isPinned: body.pinned ?? true,
    contextTokens: body.context_tokens,
    sequences: body.sequences,
    isDeterministic: body.deterministic,
    memoryBytesMax: body.memory_bytes_max,
    chatTemplate:
      body.chat_template === undefined ? undefined : await readChatTemplate(body.chat_template),
  };
}
