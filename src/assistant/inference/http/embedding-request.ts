import { Type } from "typebox";
import type { EmbedRequest } from "../service-port.ts";
import { createValidator, describeValueType, invalidParamError } from "./body-validator.ts";
import { egressField, parseEgress } from "./egress-parameter.ts";
import { parseKeepAlive } from "./generation-parameters.ts";
import { parseObject } from "./json-body.ts";
import { findUnknownParameters, type UnknownParameters } from "./unknown-parameters.ts";

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
const embeddingBody = createValidator(Type.Object(fields));

export interface EmbeddingRequest extends UnknownParameters {
  readonly embed: EmbedRequest;
  readonly encoding: "float" | "base64";
  readonly dimensions: number | undefined;
  /** True if the client requested the token count of each text. */
  readonly includeCounts: boolean;
}

/**
 * Parses the body of an embeddings request. Throws AssistantError `invalid_request` or `unsupported_parameter`, both
 * with `param`.
 */
export function parseEmbeddingRequest(body: unknown): EmbeddingRequest {
  const raw = parseObject(body);
  const ignored = findUnknownParameters(raw, embeddingParameters, "embeddings");
  const given = embeddingBody(raw, "");
  return {
    embed: {
      model: given.model === "" ? undefined : given.model,
      texts: parseTexts(given.input),
      priority: given.svc_priority ?? "interactive",
      keepAliveMs: parseKeepAlive(given.keep_alive),
      egress: parseEgress(given.svc_scopes),
    },
    encoding: given.encoding_format ?? "float",
    dimensions: given.dimensions,
    includeCounts: given.svc_counts ?? false,
    ...ignored,
  };
}

function parseTexts(input: unknown): readonly string[] {
  if (input === undefined) throw invalidParamError("input", "is required");
  const isList = Array.isArray(input);
  const texts: readonly unknown[] = isList ? input : [input];
  if (texts.length === 0) throw invalidParamError("input", "has to have at least 1 item");
  if (texts.length > TEXTS_MAX)
    throw invalidParamError("input", `may have at most ${TEXTS_MAX} texts`);
  return texts.map((text, index) => {
    const at = isList ? `input[${index}]` : "input";
    if (typeof text === "number" || Array.isArray(text)) {
      // Token ids are refused, because clients that send them use the vocabulary of another vendor's model.
      throw invalidParamError(
        at,
        "has to be text: token ids have a different meaning in every model",
      );
    }
    if (typeof text !== "string") {
      throw invalidParamError(
        at,
        `has to be a string${isList ? "" : " or an array of strings"}, and is ${describeValueType(text)}`,
      );
    }
    if (text === "") throw invalidParamError(at, "is empty");
    return text;
  });
}
