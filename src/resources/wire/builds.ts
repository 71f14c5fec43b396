import { type Static, Type } from "typebox";
import { closed, NullableInteger, NullableString, OneOf, Timestamp } from "./wire-schema.ts";

export const BuildView = Type.Object(
  {
    id: Type.Integer(),
    app: Type.String(),
    generation: Type.Integer(),
    source: Type.String({
      description: "source of the build: the URL of a repository, archive, or folder",
    }),
    revision: Type.String({
      description: "revision of the source: a commit, or the sha256 of an archive or folder",
    }),
    image: Type.String(),
    state: OneOf(["queued", "running", "succeeded", "failed", "cancelled", "abandoned"]),
    message: Type.Unsafe<string | null>({
      ...NullableString,
      description: "reason for which the build failed",
    }),
    image_bytes: NullableInteger,
    created_at: Timestamp,
    started_at: NullableString,
    finished_at: NullableString,
  },
  closed,
);
export type BuildView = Static<typeof BuildView>;

export const BuildList = Type.Object(
  { builds: Type.Array(BuildView), total: Type.Integer() },
  closed,
);
export type BuildList = Static<typeof BuildList>;

export const BuildLogView = Type.Object(
  { id: Type.Integer(), app: Type.String(), lines: Type.Array(Type.String()) },
  closed,
);
export type BuildLogView = Static<typeof BuildLogView>;

/** An uploaded archive. Use `digest` as `source.archive`. */
export const UploadedArchiveView = Type.Object(
  {
    digest: Type.String({ description: "sha256 of the archive in hexadecimal" }),
    bytes: Type.Integer(),
  },
  closed,
);
export type UploadedArchiveView = Static<typeof UploadedArchiveView>;

export const GitHookResponse = Type.Object(
  {
    apps: Type.Array(Type.String(), {
      description: "names of the apps whose sources Berth now checks",
    }),
  },
  closed,
);
export type GitHookResponse = Static<typeof GitHookResponse>;
