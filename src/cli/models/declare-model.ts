import { basename, resolve } from "node:path";
import { ApiError } from "../../client/rest/api-error.ts";
import type { Client } from "../../client/rest/client.ts";
import { NAME_LENGTH_MAX } from "../../resources/field-schemas.ts";
import type { Manifest } from "../../resources/kinds.ts";
import type { ModelSpec } from "../../resources/model-spec.ts";
import type { ModelDetails } from "../../resources/wire/models.ts";
import { UsageError } from "../cli-errors.ts";
import { exportManifest } from "../output/export-manifest.ts";

/** The fields of a Model that flags can set, in addition to its source. */
export type ModelFields = Partial<
  Pick<
    ModelSpec,
    | "file"
    | "quantization"
    | "revision"
    | "sha256"
    | "credential"
    | "contextSize"
    | "parallel"
    | "chatTemplate"
    | "deterministic"
  >
>;

export type ModelArgument =
  /** The argument names a Model, a catalog entry or a repository, optionally with `:QUANTIZATION`. */
  | { readonly type: "id"; readonly id: string }
  /** The argument is a URL or the path of a file, which becomes the source of a Model. */
  | { readonly type: "source"; readonly source: string };

/**
 * Parses the argument. The URL of a page of a hub, `https://HOST/org/name`, is kept as an id, which the server
 * resolves. Pure.
 */
export function parseModelArgument(word: string, workingDirectory: string): ModelArgument {
  const isUrl = /^[a-z][a-z0-9+.-]*:\/\//i.test(word);
  const isPage = /^https:\/\/[^/]+\/[^/]+\/[^/?#]+$/i.test(word) && !/\.gguf$/i.test(word);
  if (isUrl && !isPage) return { type: "source", source: word };
  const isPath = /^(\/|\.{1,2}\/)/.test(word) || (/\.gguf$/i.test(word) && !word.includes("/"));
  if (isPath) return { type: "source", source: resolve(workingDirectory, word) };
  return { type: "id", id: word };
}

/** Splits `org/name:Q8_0` into repository and quantization. */
export function splitModelId(id: string): { repository: string; quantization: string | undefined } {
  const [, repository = id, quantization] = /^(.+\/[^:]+):([\w.-]+)$/.exec(id) ?? [];
  return { repository, quantization };
}

type ModelManifest = Pick<Manifest<"Model">, "metadata" | "spec">;

export interface DeclaredModel {
  readonly name: string;
  /** False if an equal Model existed already. */
  readonly hasChanged: boolean;
}

/**
 * Creates the Model that the argument and the fields describe, or sets these fields of the existing one. Throws
 * ApiError as `apply` does, and UsageError if the source, file or quantization of an existing Model would change.
 */
export async function declareModel(
  client: Client,
  word: ModelArgument,
  fields: ModelFields,
  options: { readonly name?: string | undefined; readonly force?: boolean } = {},
): Promise<DeclaredModel> {
  const { name, spec, quantization } = await resolveModel(client, word, fields, options.name);
  const wanted: ModelFields = {
    ...fields,
    ...(quantization === undefined ? {} : { quantization }),
  };
  const before = await fetchManifest(client, name);
  if (before !== undefined) assertSameModel(before, { ...wanted, source: spec.source });
  const { results } = await client.apply({
    manifests: [
      {
        apiVersion: "berth.dev/v1",
        kind: "Model",
        metadata: before?.metadata ?? { name },
        spec: { ...(before?.spec ?? spec), ...wanted },
      },
    ],
    manager: "cli",
    ...(options.force === true ? { force: true } : {}),
  });
  return { name, hasChanged: results[0]?.action !== "unchanged" };
}

/** Resolves to the name of the Model. If the Model does not exist yet, the result also contains its spec. */
async function resolveModel(
  client: Client,
  word: ModelArgument,
  fields: ModelFields,
  givenName: string | undefined,
): Promise<{ name: string; spec: ModelSpec; quantization: string | undefined }> {
  if (word.type === "source")
    return {
      name: givenName ?? nameFromSource(word.source),
      spec: { source: word.source },
      quantization: undefined,
    };
  const { repository, quantization = fields.quantization } = splitModelId(word.id);
  const id = quantization === undefined ? repository : `${repository}:${quantization}`;
  const known = await fetchModel(client, id);
  const isKnown = known?.spec != null && (givenName === undefined || givenName === known.name);
  return {
    name: givenName ?? known?.name ?? (await chooseFreeName(client, id)),
    spec:
      isKnown && known.spec !== null ? known.spec : { source: known?.spec?.source ?? repository },
    quantization,
  };
}

/**
 * Returns an unused name for a Model, which the server chooses in a dry run. Throws ApiError 404 if `id` cannot be the
 * id of a repository.
 */
async function chooseFreeName(client: Client, id: string): Promise<string> {
  const preview = await client.models.download(id, { dryRun: true });
  return preview.dryRun ? preview.report.name : preview.model.name;
}

/** Fetches a Model, a catalog entry or a file of the assistant; undefined if none or several match. */
async function fetchModel(client: Client, id: string): Promise<ModelDetails | undefined> {
  try {
    return await client.models.get(id);
  } catch (error) {
    if (error instanceof ApiError && (error.status === 404 || error.status === 409))
      return undefined;
    throw error;
  }
}

async function fetchManifest(client: Client, name: string): Promise<ModelManifest | undefined> {
  try {
    const [resource, { spec }] = await Promise.all([
      client.resources.get("Model", name),
      client.models.get(name),
    ]);
    return spec === null ? undefined : { metadata: exportManifest(resource).metadata, spec };
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return undefined;
    throw error;
  }
}

/**
 * Throws UsageError if `wanted` declares another model than the existing one with its name, because the existing model
 * may be in use.
 */
function assertSameModel(
  { metadata, spec }: ModelManifest,
  wanted: Pick<ModelSpec, "source" | "file" | "quantization">,
): void {
  for (const field of ["source", "file", "quantization"] as const) {
    const has = spec[field];
    if (wanted[field] === undefined || wanted[field] === has) continue;
    throw new UsageError(
      `model "${metadata.name}" already exists, with ${has === undefined ? `no ${field}` : `the ${field} ${has}`}`,
      `choose another name: --name NAME; or change the existing model: \`berth edit model ${metadata.name}\``,
    );
  }
}

/** Derives the name of a Model from the name of its file. Throws UsageError if no allowed characters remain. */
function nameFromSource(source: string): string {
  const path = URL.parse(source)?.pathname ?? source;
  const name = basename(path)
    .replace(/\.gguf$/i, "")
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-")
    .slice(0, NAME_LENGTH_MAX)
    .replaceAll(/^-|-$/g, "");
  if (name !== "") return name;
  throw new UsageError(`no name can be derived from "${source}"`, "choose a name: --name NAME");
}
