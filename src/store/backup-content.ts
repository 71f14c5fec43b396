import { lstat, readdir } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { getErrorCode } from "../base/errors.ts";
import { readPackageVersion } from "../base/package-version.ts";
import { listDataPlaces, listOtherUsers } from "../resources/app-data.ts";
import { getStack } from "../resources/stack.ts";
import type { BackupManifest, LeftOut } from "../resources/wire/backup.ts";
import type { Store } from "./store.ts";

/** A file of the data directory. Its path is relative to that directory. */
export interface BackupFile {
  readonly path: string;
  readonly bytes: number;
}

export interface BackupContent {
  readonly files: readonly BackupFile[];
  readonly manifest: BackupManifest;
}

/** A folder of the data directory whose files are part of a backup. */
export const ARCHIVES_FOLDER = "archives";
export const CERTIFICATES_FOLDER = "ingress/storage";

/** Lists what a backup contains in addition to the store, and what it leaves out. */
export async function findBackupContent(
  store: Pick<Store, "instanceId" | "list" | "archivesInUse">,
  dataDir: string,
  createdAt: string,
): Promise<BackupContent> {
  const leftOut: LeftOut[] = [];
  const archives: { digest: string; bytes: number }[] = [];
  const files: BackupFile[] = [];
  for (const digest of [...store.archivesInUse()].toSorted()) {
    const path = `${ARCHIVES_FOLDER}/${digest}.archive`;
    const state = await lstat(join(dataDir, path)).catch(() => undefined);
    if (state?.isFile() === true) {
      files.push({ path, bytes: state.size });
      archives.push({ digest, bytes: state.size });
    } else leftOut.push(missingArchive(digest));
  }
  const stored = await listFiles(dataDir, CERTIFICATES_FOLDER);
  const pattern = new RegExp(`^${CERTIFICATES_FOLDER}/certificates/[^/]+/([^/]+)/[^/]+\\.crt$`);
  const domains = stored.flatMap(({ path }) => pattern.exec(path)?.[1] ?? []);
  return {
    files: [...files, ...stored],
    manifest: {
      format: 1,
      created_at: createdAt,
      berth_version: readPackageVersion(),
      instance_id: store.instanceId,
      host: hostname(),
      contains: {
        archives,
        certificates: [...new Set(domains)].toSorted(),
        certificate_files: stored.length,
      },
      left_out: [...leftOut, ...listLeftOut(store)],
    },
  };
}

function missingArchive(digest: string): LeftOut {
  return {
    kind: "source",
    name: digest,
    app: null,
    note: "the archive is missing on this machine",
  };
}

function listLeftOut(store: Pick<Store, "list">): LeftOut[] {
  const found: LeftOut[] = [];
  const apps = store.list("App");
  for (const app of apps) {
    const { metadata, spec } = app;
    const add = (kind: LeftOut["kind"], name: string, note: string) =>
      found.push({ kind, name, app: metadata.name, note });
    for (const place of listDataPlaces(spec)) {
      const others = listOtherUsers(app, place, apps);
      const sharers = others.length === 0 ? "" : `, also mounted by ${others.join(", ")}`;
      const owner = place.shared ? `of the stack ${getStack(metadata)}${sharers}: ` : "";
      add(place.type, place.name, `${owner}save and restore its data yourself`);
    }
    for (const volume of spec.volumes ?? [])
      if ("hostPath" in volume)
        add("host_path", volume.hostPath, "save and restore its data yourself");
    const { source } = spec;
    if (spec.image !== undefined) add("image", spec.image, "pulled again from its registry");
    if (!source) continue;
    if ("archive" in source) add("image", "built", "built again from its archive in the backup");
    else if ("empty" in source)
      add("image", "built", "built again from the Dockerfile in its spec");
    else if ("git" in source) add("image", "built", `built again from ${source.git.url}`);
    else add("source", source.local, "copy the folder to the same path");
  }
  for (const { metadata } of store.list("Model"))
    found.push({ kind: "model", name: metadata.name, app: null, note: "downloaded again" });
  const ownFiles = [
    [
      "specs folder",
      "copy the folder, or fetch it from its repository; the server keeps the last state that it applied",
    ],
    ["configuration file", "copy the file"],
    ["logs", "the logs of builds and of removed containers are lost"],
    ["data of the assistant", "the ledger has its own export: berth ledger export"],
  ] as const;
  for (const [name, note] of ownFiles) found.push({ kind: "file", name, app: null, note });
  return found;
}

/** Lists the regular files below a folder, without the lock files of Caddy. */
async function listFiles(dataDir: string, folder: string): Promise<BackupFile[]> {
  const entries = await readdir(join(dataDir, folder), { withFileTypes: true }).catch(
    (error: unknown) => {
      if (getErrorCode(error) === "ENOENT") return [];
      throw error;
    },
  );
  const found: BackupFile[] = [];
  for (const entry of entries.toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
    const path = `${folder}/${entry.name}`;
    if (entry.isDirectory()) {
      if (path !== `${CERTIFICATES_FOLDER}/locks`) found.push(...(await listFiles(dataDir, path)));
    } else if (entry.isFile()) {
      const state = await lstat(join(dataDir, path)).catch(() => undefined);
      if (state) found.push({ path, bytes: state.size });
    }
  }
  return found;
}
