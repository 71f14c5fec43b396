import { type Static, Type } from "typebox";

const LeftOut = Type.Object({
  kind: Type.Union([
    Type.Literal("volume"),
    Type.Literal("folder"),
    Type.Literal("host_path"),
    Type.Literal("image"),
    Type.Literal("source"),
    Type.Literal("model"),
    Type.Literal("file"),
  ]),
  name: Type.String(),
  /** The App to which the omitted data belongs; null if there is none. */
  app: Type.Union([Type.String(), Type.Null()]),
  /** The effect that the missing data has on a restore, or the action that the user has to take. */
  note: Type.String(),
});
export type LeftOut = Static<typeof LeftOut>;

/** The manifest in a backup's table `backup_manifest`, which `berth backup -o json` prints. */
export const BackupManifest = Type.Object({
  format: Type.Literal(1),
  created_at: Type.String(),
  berth_version: Type.String(),
  instance_id: Type.String(),
  host: Type.String(),
  contains: Type.Object({
    /** Uploaded archives that the spec or a kept revision of an App names. */
    archives: Type.Array(Type.Object({ digest: Type.String(), bytes: Type.Number() })),
    /** Domains whose certificates and keys are in the backup. */
    certificates: Type.Array(Type.String()),
    /** The files of Caddy's storage: certificates, the ACME account and the local authority. */
    certificate_files: Type.Number(),
  }),
  left_out: Type.Array(LeftOut),
});
export type BackupManifest = Static<typeof BackupManifest>;
