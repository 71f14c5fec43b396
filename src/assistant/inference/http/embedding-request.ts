import { Type } from "typebox";
import type { EmbedRequest } from "../service-port.ts";
import { checked, kindOf, refused } from "./checked.ts";
import { egressField, egressOf } from "./egress-wish.ts";
import { keepAliveOf } from "./generation-parameters.ts";
import { objectOf } from "./json-body.ts";
import { type StrayParameters, strayParameters } from "./parameters.ts";

const TEXTS_MAX = 2048;

const fields = {
  model: Type.Optional(Type.String({ maxLength: 256 })),
  input: Type.Unknown(),
  encoding_format: Type.Optional(Type.Enum(["float", "base64"])),
  dimensions: Type.Optional(Type.Integer({ minimum: 1 })),
  svc_priority: Type.Optional(Type.Enum(["interactive", "background"])),
  keep_alive: Type.Optional(Type.Unknown()),
  svc_counts: Type.Optional(Type.Boolean()),
  svc_scopes: egressField,
} as const;

export const embeddingParameters: ReadonlySet<string> = new Set(Object.keys(fields));
const embeddingBody = checked(Type.Object(fields));

export interface EmbeddingRequest extends StrayParameters {
  readonly embed: EmbedRequest;
  readonly encoding: "float" | "base64";
  readonly dimensions: number | undefined;
  /** Whether the tokens of each text are told. */
  readonly tellsCounts: boolean;
}

/** Throws AssistantError `invalid_request` or `unsupported_parameter`, both with `param`. */
export function embeddingRequestOf(body: unknown): EmbeddingRequest {
  const raw = objectOf(body);
  const stray = strayParameters(raw, embeddingParameters, "embeddings");
  const given = embeddingBody(raw, "");
  return {
    embed: {
      model: given.model === "" ? undefined : given.model,
      texts: textsOf(given.input),
      priority: given.svc_priority ?? "interactive",
      keepAliveMs: keepAliveOf(given.keep_alive),
      egress: egressOf(given.svc_scopes),
    },
    encoding: given.encoding_format ?? "float",
    dimensions: given.dimensions,
    tellsCounts: given.svc_counts ?? false,
    ...stray,
  };
}

function textsOf(input: unknown): readonly string[] {
  if (input === undefined) throw refused("input", "is required");
  const isList = Array.isArray(input);
  const texts: readonly unknown[] = isList ? input : [input];
  if (texts.length === 0) throw refused("input", "has to have at least 1 item");
  if (texts.length > TEXTS_MAX) throw refused("input", `may have at most ${TEXTS_MAX} texts`);
  return texts.map((text, index) => {
    const at = isList ? `input[${index}]` : "input";
    if (typeof text === "number" || Array.isArray(text)) {
      // Clients that send ids have them from the vocabulary of another vendor's model.
      throw refused(at, "has to be text: ids of tokens mean something else to every model");
    }
    if (typeof text !== "string") {
      throw refused(
        at,
        `has to be a string${isList ? "" : " or an array of strings"}, and is ${kindOf(text)}`,
      );
    }
    if (text === "") throw refused(at, "is empty");
    return text;
  });
}
