import { createHash } from "node:crypto";
import { dirname, resolve } from "node:path";
import { BerthError } from "../../base/errors.ts";
import type { Client } from "../../client/rest/client.ts";
import type { AppSpec } from "../../resources/app-spec.ts";
import type { Manifest } from "../../resources/kinds.ts";
import type { Cli } from "../cli.ts";
import type { LocatedManifest } from "../manifest-files.ts";
import { readBaseline } from "./finish-deploy.ts";
import { listFolder, packFolder } from "./pack-folder.ts";

/**
 * The manifests as the server may have them: it does not read folders for those who write to its
 * API, so a folder that is to be built is uploaded, and its archive stands in its place. With `isDryRun` it
 * is only worked out what its archive would be called.
 */
export async function uploadLocalSources(
  cli: Cli,
  client: Client,
  manifests: readonly LocatedManifest[],
  isDryRun: boolean,
): Promise<Manifest[]> {
  const prepared: Manifest[] = [];
  for (const { manifest, file, line } of manifests) {
    const local = isApp(manifest) ? localSourcePath(manifest.spec) : undefined;
    if (local === undefined || !isApp(manifest)) {
      prepared.push(manifest);
      continue;
    }
    const base = file === "-" ? "." : dirname(file);
    const dir = resolve(cli.io.workingDirectory, base, local);
    const { name } = manifest.metadata;
    // A file of the specs folder that is applied by hand: the server knows the folder already.
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

function isApp(manifest: Manifest): manifest is Manifest<"App"> {
  return manifest.kind === "App";
}
