import { type Static, Type } from "typebox";
import { Name } from "./field-schemas.ts";

/** The `spec` of a Model as users write it. */
export const ModelSpec = Type.Object(
  {
    source: Type.String({
      minLength: 1,
      maxLength: 1024,
      description:
        "the source of the model: repository id (org/name), https URL of a GGUF file, or absolute path of a GGUF file on this machine",
    }),
    file: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 1024,
        description: "path of a GGUF file in the repository; any part of a split model",
      }),
    ),
    quantization: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 64,
        description:
          "quantization such as Q4_K_M, by which the file of the repository is chosen; default without file: Q4_K_M if there is one, otherwise the nearest one",
      }),
    ),
    revision: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 255,
        description: "branch, tag or commit of the repository; default: the main branch",
      }),
    ),
    sha256: Type.Optional(
      Type.String({
        pattern: "^[0-9a-f]{64}$",
        description: "expected digest of the file, or of the first part of a split model",
      }),
    ),
    running: Type.Optional(
      Type.Boolean({ description: "true: the model is loaded into memory; default: false" }),
    ),
    contextSize: Type.Optional(
      Type.Integer({
        minimum: 128,
        maximum: 16_777_216,
        description:
          "number of tokens that one request may have; default: as many as memory allows, up to 8192",
      }),
    ),
    parallel: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 256,
        description:
          "number of requests that the model serves concurrently; default: as many as memory allows, up to 8",
      }),
    ),
    chatTemplate: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 262_144,
        description:
          "chat template in place of the one in the file: its text, or the absolute path of a file of the server; default: the file's own",
      }),
    ),
    deterministic: Type.Optional(
      Type.Boolean({
        description:
          "true: the same request gets the same answer and the same logprobs, bit for bit, whatever the model answered before and answers at the same time, at the cost of speed; default: the setting of the assistant, which is false unless it was started with --deterministic on",
      }),
    ),
    gpu: Type.Optional(
      Type.Union([Type.Boolean(), Type.Literal("auto")], {
        description:
          "use of a GPU; this version computes on the CPU only, so false and auto are the same, and true is refused",
      }),
    ),
    credential: Type.Optional(Name),
  },
  {
    additionalProperties: false,
    description:
      "A language model: a GGUF file of a repository, kept on disk and, when running, in memory.",
  },
);
export type ModelSpec = Static<typeof ModelSpec>;
