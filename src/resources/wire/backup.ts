/** The manifest in a backup's table `backup_manifest`, which `berth backup -o json` prints. */
export interface BackupManifest {
  readonly format: 1;
  readonly created_at: string;
  readonly berth_version: string;
  readonly instance_id: string;
  readonly host: string;
  readonly contains: {
    /** Uploaded archives that the spec or a kept revision of an App names. */
    readonly archives: readonly { readonly digest: string; readonly bytes: number }[];
    /** Domains whose certificates and keys are in the backup. */
    readonly certificates: readonly string[];
    /** The files of Caddy's storage: certificates, the ACME account and the local authority. */
    readonly certificate_files: number;
  };
  readonly left_out: readonly LeftOut[];
}

export interface LeftOut {
  readonly kind: "volume" | "host_path" | "image" | "source" | "model" | "file";
  readonly name: string;
  /** The App to which the omitted data belongs; null if there is none. */
  readonly app: string | null;
  /** The effect that the missing data has on a restore, or the action that the user has to take. */
  readonly note: string;
}
