import { type Static, type TSchema, Type } from "typebox";
import { LazyValidator } from "../../../base/json-validator.ts";
import { invalidResponseError } from "./control-transport.ts";
import type { AssistantState, InspectedModel } from "./port.ts";

/** The fields that Berth reads from the responses of the control socket. A newer assistant may send more fields. */

const text = Type.String();
const wholeNumber = Type.Integer({ minimum: 0 });
const nullable = <T extends TSchema>(type: T) => Type.Union([type, Type.Null()]);

const Model = Type.Object({
  id: text,
  aliases: Type.Array(text),
  path: nullable(text),
  size_bytes: nullable(wholeNumber),
  state: Type.Union([
    Type.Literal("unloaded"),
    Type.Literal("loading"),
    Type.Literal("resident"),
    Type.Literal("unloading"),
    Type.Literal("failed"),
  ]),
  pinned: Type.Boolean(),
  memory_bytes: nullable(wholeNumber),
  wanted: Type.Object({
    context_tokens: nullable(wholeNumber),
    sequences: nullable(wholeNumber),
    chat_template: Type.Optional(nullable(text)),
    // An older assistant does not send this field.
    deterministic: Type.Optional(nullable(Type.Boolean())),
  }),
  context_tokens: nullable(wholeNumber),
  sequences: nullable(wholeNumber),
  loaded_at: nullable(text),
  error: Type.Union([Type.Object({ code: text, message: text }), Type.Null()]),
  recovering: Type.Boolean(),
});

/** The fields that assistants of every version report. */
const Identity = Type.Object({
  version: text,
  pid: Type.Integer({ minimum: 1 }),
  url: text,
  started_by: Type.Optional(nullable(text)),
});

const State = Type.Intersect([
  Identity,
  Type.Object({ engine: text, memory_bytes_max: wholeNumber, models: Type.Array(Model) }),
]);

const Inspected = Type.Object({
  architecture: text,
  name: nullable(text),
  parameters: nullable(wholeNumber),
  quantization: nullable(text),
  context_tokens: wholeNumber,
  kind: Type.Union([Type.Literal("chat"), Type.Literal("completion"), Type.Literal("embedding")]),
  memory_bytes: Type.Object({ wanted: wholeNumber, least: wholeNumber }),
});

const identityValidator = new LazyValidator<Static<typeof Identity>>(Identity);
const stateValidator = new LazyValidator<Static<typeof State>>(State);
const inspectedValidator = new LazyValidator<Static<typeof Inspected>>(Inspected);

export interface AssistantIdentity {
  readonly version: string;
  readonly pid: number;
  /** The URL of the assistant's endpoint, such as http://127.0.0.1:7777. */
  readonly url: string;
  /** The program that started the assistant; null if the user started it. */
  readonly startedBy: string | null;
}

/** Returns the validated response. Throws `engine_error` if the response does not come from an assistant. */
export function readIdentity(answer: unknown): AssistantIdentity {
  const { version, pid, url, started_by: startedBy } = validateAnswer(answer, identityValidator);
  return { version, pid, url, startedBy: startedBy ?? null };
}

export function readState(answer: unknown): AssistantState {
  const state = validateAnswer(answer, stateValidator);
  return {
    version: state.version,
    pid: state.pid,
    engine: state.engine,
    url: state.url,
    memoryBytesMax: state.memory_bytes_max,
    models: state.models.map((model) => ({
      id: model.id,
      aliases: model.aliases,
      path: model.path,
      sizeBytes: model.size_bytes,
      state: model.state,
      pinned: model.pinned,
      memoryBytes: model.memory_bytes,
      wanted: {
        contextTokens: model.wanted.context_tokens,
        sequences: model.wanted.sequences,
        chatTemplate: model.wanted.chat_template ?? null,
        deterministic: model.wanted.deterministic ?? null,
      },
      contextTokens: model.context_tokens,
      sequences: model.sequences,
      loadedAt: model.loaded_at,
      error: model.error,
      recovering: model.recovering,
    })),
  };
}

export function readInspectedModel(answer: unknown): InspectedModel {
  const found = validateAnswer(answer, inspectedValidator);
  return {
    architecture: found.architecture,
    name: found.name,
    parameters: found.parameters,
    quantization: found.quantization,
    contextTokens: found.context_tokens,
    kind: found.kind,
    memoryBytes: found.memory_bytes,
  };
}

function validateAnswer<T>(answer: unknown, shape: LazyValidator<T>): T {
  if (shape.isValid(answer)) return answer;
  const [first] = shape.errors;
  throw invalidResponseError(
    new Error(`the answer${first?.instancePath ?? ""} ${first?.message ?? "is wrong"}`),
  );
}
