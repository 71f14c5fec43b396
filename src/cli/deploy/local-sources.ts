import { createHash } from "node:crypto";
import { dirname, resolve } from "node:path";
import { BerthError } from "../../base/errors.ts";
import type { Client } from "../../client/rest/client.ts";
import type { AppSpec } from "../../resources/app.ts";
import type { Manifest } from "../../resources/kinds.ts";
import type { Cli } from "../cli.ts";
import type { LocatedManifest } from "../manifest-files.ts";
import { lookBefore } from "./finish.ts";
import { listFolder, packedFolder } from "./pack.ts";

/**
 * The manifests as the server may have them: it does not read folders for those who write to its
 * API, so a folder that is to be built is uploaded, and its archive stands in its place. With `isDryRun` it
 * is only worked out what its archive would be called.
 */
export async function withUploads(
  cli: Cli,
  client: Client,
  manifests: readonly LocatedManifest[],
  isDryRun: boolean,
): Promise<Manifest[]> {
  const sent: Manifest[] = [];
  for (const { manifest, file, line } of manifests) {
    const local = isApp(manifest) ? localOf(manifest.spec) : undefined;
    if (local === undefined || !isApp(manifest)) {
      sent.push(manifest);
      continue;
    }
    const base = file === "-" ? "." : dirname(file);
    const dir = resolve(cli.io.workingDirectory, base, local);
    const { name } = manifest.metadata;
    // A file of the specs folder that is applied by hand: the server knows the folder already.
    const { app } = await lookBefore(client, name);
    if (app !== undefined && localOf(app.spec) === dir) {
      sent.push({ ...manifest, spec: { ...manifest.spec, source: { local: dir } } });
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
    const archive = packedFolder(cli, tree, `uploading ${name}`, signal);
    const digest = isDryRun
      ? await digestOf(archive)
      : (await client.builds.upload(archive, signal)).digest;
    sent.push({ ...manifest, spec: { ...manifest.spec, source: { archive: digest } } });
  }
  return sent;
}

async function digestOf(archive: AsyncIterable<Uint8Array>): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of archive) hash.update(chunk);
  return hash.digest("hex");
}

function localOf({ source }: AppSpec): string | undefined {
  return source && "local" in source ? source.local : undefined;
}

function isApp(manifest: Manifest): manifest is Manifest<"App"> {
  return manifest.kind === "App";
}
