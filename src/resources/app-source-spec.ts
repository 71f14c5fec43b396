import { type Static, Type } from "typebox";
import { Duration, Name } from "./field-schemas.ts";
import { languageSchema } from "./language.ts";

/** The longest text of a Dockerfile in a spec, in characters. */
const DOCKERFILE_LENGTH_MAX = 64 * 1024;

const closed = { additionalProperties: false } as const;

export const GitSource = Type.Object(
  {
    url: Type.String({
      pattern: "^(https?://|ssh://|[A-Za-z0-9._-]+@)",
      maxLength: 2048,
      description: "https://HOST/PATH, ssh://USER@HOST/PATH or git@HOST:PATH",
    }),
    ref: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 255,
        description: "branch, tag or commit; default: the remote's HEAD",
      }),
    ),
    path: Type.Optional(
      Type.String({ maxLength: 1024, description: "folder of the repository that is built" }),
    ),
    dockerfile: Type.Optional(
      Type.String({
        maxLength: 1024,
        description: "path of the Dockerfile, relative to the field path; default: Dockerfile",
      }),
    ),
    credential: Type.Optional(Name),
    interval: Type.Optional(Duration),
    hookSecret: Type.Optional(
      Type.Unsafe<string>({
        ...Name,
        description: "a Secret whose value signs POST /api/hooks/git/<name of the app>",
      }),
    ),
  },
  closed,
);
export type GitSource = Static<typeof GitSource>;

export const AppSource = Type.Union(
  [
    Type.Object({ git: GitSource }, closed),
    Type.Object(
      {
        archive: Type.String({
          pattern: "^[0-9a-f]{64}$",
          description: "sha256 of an uploaded archive",
        }),
      },
      closed,
    ),
    Type.Object(
      {
        local: Type.String({
          minLength: 1,
          maxLength: 1024,
          description: "a folder, relative to the spec file; only in files of the specs folder",
        }),
      },
      closed,
    ),
    Type.Object(
      {
        empty: Type.Literal(true, {
          description: "no files: the Dockerfile of build.inline needs none",
        }),
      },
      closed,
    ),
  ],
  { description: "one of git, archive, local or empty" },
);
export type AppSource = Static<typeof AppSource>;

/** Options for building an image from a source. All are optional. */
export const BuildOptions = Type.Object(
  {
    dockerfile: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 1024,
        description:
          "path of the Dockerfile, relative to the source; default: Dockerfile, or a generated one",
      }),
    ),
    inline: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: DOCKERFILE_LENGTH_MAX,
        description: "the text of a Dockerfile, which is used in place of one of the source",
      }),
    ),
    target: Type.Optional(
      Type.String({ minLength: 1, maxLength: 255, description: "stage of the Dockerfile" }),
    ),
    args: Type.Optional(
      Type.Record(Type.String({ pattern: "^[A-Za-z_][A-Za-z0-9_]*$" }), Type.String(), {
        maxProperties: 200,
        additionalProperties: false,
        description:
          "build arguments, but no secrets, because they stay readable in the image's history",
      }),
    ),
    language: Type.Optional(
      Type.Union(languageSchema.anyOf, {
        description:
          "language for which Berth generates a Dockerfile; default: detected from the files",
      }),
    ),
    baseImage: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 512,
        pattern: "^[^\\s]+$",
        description: "an image on which the generated Dockerfile is based",
      }),
    ),
  },
  { ...closed, description: "how source is built" },
);
export type BuildOptions = Static<typeof BuildOptions>;
