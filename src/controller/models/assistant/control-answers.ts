import { type Static, Type } from "typebox";
import { Shape } from "../../../base/shape.ts";
import { notUnderstood } from "./control-calls.ts";
import type { AssistantState, InspectedModel } from "./port.ts";

/** What is read of the control socket's answers; whatever else they have is a newer assistant's. */

const text = Type.String();
const whole = Type.Integer({ minimum: 0 });
const maybe = <T extends typeof text | typeof whole>(type: T) => Type.Union([type, Type.Null()]);

const Model = Type.Object({
  id: text,
  aliases: Type.Array(text),
  path: maybe(text),
  size_bytes: maybe(whole),
  state: Type.Union([
    Type.Literal("unloaded"),
    Type.Literal("loading"),
    Type.Literal("resident"),
    Type.Literal("unloading"),
    Type.Literal("failed"),
  ]),
  pinned: Type.Boolean(),
  memory_bytes: maybe(whole),
  wanted: Type.Object({ context_tokens: maybe(whole), sequences: maybe(whole) }),
  context_tokens: maybe(whole),
  sequences: maybe(whole),
  loaded_at: maybe(text),
  error: Type.Union([Type.Object({ code: text, message: text }), Type.Null()]),
  recovering: Type.Boolean(),
});

/** What assistants of every version say of themselves. */
const Identity = Type.Object({
  version: text,
  pid: Type.Integer({ minimum: 1 }),
  url: text,
  started_by: Type.Optional(maybe(text)),
});

const State = Type.Intersect([
  Identity,
  Type.Object({ engine: text, memory_bytes_max: whole, models: Type.Array(Model) }),
]);

const Inspected = Type.Object({
  architecture: text,
  name: maybe(text),
  parameters: maybe(whole),
  quantization: maybe(text),
  context_tokens: whole,
  kind: Type.Union([Type.Literal("chat"), Type.Literal("completion"), Type.Literal("embedding")]),
  memory_bytes: Type.Object({ wanted: whole, least: whole }),
});

const identity = new Shape<Static<typeof Identity>>(Identity);
const wholeState = new Shape<Static<typeof State>>(State);
const inspected = new Shape<Static<typeof Inspected>>(Inspected);

export interface AssistantIdentity {
  readonly version: string;
  readonly pid: number;
  /** http://127.0.0.1:7777 */
  readonly url: string;
  /** Null: a person started it. */
  readonly startedBy: string | null;
}

/** Throws `engine_error` where it is not what an assistant says. */
export function readIdentity(answer: unknown): AssistantIdentity {
  const { version, pid, url, started_by: startedBy } = checked(answer, identity);
  return { version, pid, url, startedBy: startedBy ?? null };
}

export function readState(answer: unknown): AssistantState {
  const state = checked(answer, wholeState);
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
      wanted: { contextTokens: model.wanted.context_tokens, sequences: model.wanted.sequences },
      contextTokens: model.context_tokens,
      sequences: model.sequences,
      loadedAt: model.loaded_at,
      error: model.error,
      recovering: model.recovering,
    })),
  };
}

export function readInspected(answer: unknown): InspectedModel {
  const found = checked(answer, inspected);
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

function checked<T>(answer: unknown, shape: Shape<T>): T {
  if (shape.fits(answer)) return answer;
  const [first] = shape.errors;
  throw notUnderstood(
    new Error(`the answer${first?.instancePath ?? ""} ${first?.message ?? "is wrong"}`),
  );
}
