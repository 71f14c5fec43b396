import { createHash } from "node:crypto";
import { dirname, resolve } from "node:path";
import { BerthError } from "../../base/errors.ts";
import type { Client } from "../../client/rest/client.ts";
import type { AppSpec } from "../../resources/app-spec.ts";
import type { Manifest } from "../../resources/kinds.ts";
import { isKind } from "../../resources/resource.ts";
import type { Cli } from "../cli.ts";
import type { LocatedManifest } from "../manifest-files.ts";
import { readBaseline } from "./finish-deploy.ts";
import { listFolder, packFolder } from "./pack-folder.ts";

/**
 * Uploads the folders that manifests name in `source.local`, because the server reads no folders for clients of its
 * API. Returns the manifests with the uploaded archives as their sources. With `isDryRun` it only computes the digests
 * of the archives.
 */
export async function uploadLocalSources(
  cli: Cli,
  client: Client,
  manifests: readonly LocatedManifest[],
  isDryRun: boolean,
): Promise<Manifest[]> {
  const prepared: Manifest[] = [];
  for (const { manifest, file, line } of manifests) {
    const local = isKind(manifest, "App") ? localSourcePath(manifest.spec) : undefined;
    if (local === undefined || !isKind(manifest, "App")) {
      prepared.push(manifest);
      continue;
    }
    const base = file === "-" ? "." : dirname(file);
    const dir = resolve(cli.io.workingDirectory, base, local);
    const { name } = manifest.metadata;
    // If the server already builds from this folder, as with a manifest in the specs folder, nothing is uploaded.
    const { app } = await readBaseline(client, name);
    if (app !== undefined && localSourcePath(app.spec) === dir) {
      prepared.push({ ...manifest, spec: { ...manifest.spec, source: { local: dir } } });
      continue;
    }
    const { signal } = new AbortController();
    const tree = await listFolder(dir, manifest.spec.build?.dockerfile, signal).catch(
      (error: unknown) => {
        if (!(error instanceof BerthError)) throw error;
        const message = `${file}:${line}: source.local ${local} of app "${name}": ${error.message}`;
        throw new BerthError(error.code, message, { hint: error.hint, cause: error });
      },
    );
    const archive = packFolder(cli, tree, `uploading ${name}`, signal);
    const digest = isDryRun
      ? await digestArchive(archive)
      : (await client.builds.upload(archive, signal)).digest;
    prepared.push({ ...manifest, spec: { ...manifest.spec, source: { archive: digest } } });
  }
  return prepared;
}

async function digestArchive(archive: AsyncIterable<Uint8Array>): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of archive) hash.update(chunk);
  return hash.digest("hex");
}

function localSourcePath({ source }: AppSpec): string | undefined {
  return source && "local" in source ? source.local : undefined;
}
