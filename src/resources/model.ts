import { type Static, Type } from "typebox";
import { Name } from "./fields.ts";

/** What a person writes under `spec` of a Model. */
export const ModelSpec = Type.Object(
  {
    source: Type.String({
      minLength: 1,
      maxLength: 1024,
      description: "repository id (org/name), https URL or file",
    }),
    file: Type.Optional(
      Type.String({ minLength: 1, maxLength: 1024, description: "file of the repository" }),
    ),
    quantization: Type.Optional(
      Type.String({ minLength: 1, maxLength: 64, description: "such as Q4_K_M; picks the file" }),
    ),
    revision: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 255,
        description: "branch, tag or commit of the repository",
      }),
    ),
    sha256: Type.Optional(Type.String({ pattern: "^[0-9a-f]{64}$" })),
    running: Type.Optional(
      Type.Boolean({ description: "true loads the model into memory; default false" }),
    ),
    contextSize: Type.Optional(
      Type.Integer({ minimum: 128, maximum: 16_777_216, description: "tokens" }),
    ),
    parallel: Type.Optional(
      Type.Integer({ minimum: 1, maximum: 256, description: "sequences served at once" }),
    ),
    gpu: Type.Optional(Type.Union([Type.Boolean(), Type.Literal("auto")])),
    credential: Type.Optional(Name),
  },
  {
    additionalProperties: false,
    description:
      "A language model: a GGUF file of a repository, kept on disk and, when running, in memory.",
  },
);
export type ModelSpec = Static<typeof ModelSpec>;
