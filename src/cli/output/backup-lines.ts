import { formatBytes } from "../../base/units.ts";
import type { BackupManifest, LeftOut } from "../../resources/wire/backup.ts";

/** Describes what a backup contains and what it leaves out. */
export function formatBackupContent({ contains, left_out }: BackupManifest): string[] {
  const { archives, certificates } = contains;
  const archiveBytes = archives.reduce((sum, { bytes }) => sum + bytes, 0);
  const parts = [
    "the store with all secrets and their key",
    archives.length === 0
      ? "no source archives"
      : `${archives.length} source ${archives.length === 1 ? "archive" : "archives"} (${formatBytes(archiveBytes)})`,
    certificates.length === 0
      ? "no certificates"
      : `the certificates of ${certificates.join(", ")}`,
  ];
  return [`contains: ${parts.join("; ")}`, "leaves out:", ...left_out.map(formatLeftOut)];
}

function formatLeftOut({ kind, name, app, note }: LeftOut): string {
  const what = kind === "file" ? name : `${kind.replace("_", " ")} ${name}`;
  return `  ${what}${app === null ? "" : ` of ${app}`}: ${note}`;
}
