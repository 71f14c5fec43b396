import { createHash, randomUUID } from "node:crypto";
import { access, mkdir, open, readdir, readFile, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buildBertModel } from "./bert-architecture.ts";
import { buildLlamaModel, type LlamaShape } from "./llama-architecture.ts";
import { chatTemplate } from "./sample-chat-template.ts";
import { type GgufFile, type TensorType, writeGguf } from "./write-gguf.ts";

/** The options by which a test's model can differ from a preset. */
export interface ModelOptions {
  readonly seed?: number;
  /** The model's name, which is the value of the key `general.name` in the file's metadata. */
  readonly name?: string;
  /** The context for which the model claims to be trained, in tokens. */
  readonly contextTokens?: number;
  /** The size of the vocabulary, which cannot be set for the preset `embedding`. */
  readonly vocabularySize?: number;
  /** The chat template. Null makes a completion model, which has no template. */
  readonly template?: string | null;
  /** The average length of an answer in tokens at temperature 1; null if answers never end. */
  readonly endsAfter?: number | null;
  /** The type of the weights, which cannot be set for the preset `embedding`. */
  readonly type?: TensorType;
  /** If true, every logit of the model is NaN. */
  readonly notANumber?: boolean;
}

const tiny: LlamaShape = {
  name: "Tiny Random",
  seed: 1,
  type: "F32",
  vocabularySize: 512,
  embeddingLength: 64,
  layers: 1,
  heads: 4,
  keyValueHeads: 2,
  feedForwardLength: 96,
  contextTokens: 2_048,
  template: chatTemplate,
  endsAfter: 150,
  notANumber: false,
};

/** The presets of models by name, with the sizes of their files. */
const llamaPresets = {
  /** A file of 0.4 MB, with which the computation takes almost no time. */
  tiny,
  /** A file of 0.4 MB, whose context needs far more memory than its weights. */
  "wide-context": { ...tiny, name: "Wide Random", contextTokens: 131_072 },
  /** A file of 2 MB, in F16. Its four layers show how the tokens before a token were rounded. */
  layers: {
    ...tiny,
    name: "Layers Random",
    type: "F16",
    embeddingLength: 128,
    layers: 4,
    feedForwardLength: 256,
  },
  /** A file of 9 MB, in F16. */
  small: {
    ...tiny,
    name: "Small Random",
    type: "F16",
    vocabularySize: 2_048,
    embeddingLength: 256,
    layers: 4,
    heads: 8,
    keyValueHeads: 4,
    feedForwardLength: 704,
  },
  /** A file of 34 MB. The model's answers never end, so that a measurement can choose their length. */
  "big-q8": {
    ...tiny,
    name: "Big Random",
    type: "Q8_0",
    vocabularySize: 4_096,
    embeddingLength: 512,
    layers: 9,
    heads: 8,
    keyValueHeads: 8,
    feedForwardLength: 1_408,
    contextTokens: 4_096,
    endsAfter: undefined,
  },
  /** A file of 236 MB, with which computation limits the speed, as with real models. The model's answers never end. */
  "mid-q8": {
    ...tiny,
    name: "Mid Random",
    type: "Q8_0",
    vocabularySize: 8_192,
    embeddingLength: 1_024,
    layers: 16,
    heads: 16,
    keyValueHeads: 16,
    feedForwardLength: 2_816,
    contextTokens: 4_096,
    endsAfter: undefined,
  },
} as const satisfies Record<string, LlamaShape>;

export type Preset = keyof typeof llamaPresets | "embedding";

export const presets: readonly Preset[] = [
  "tiny",
  "wide-context",
  "small",
  "big-q8",
  "mid-q8",
  "embedding",
];

/**
 * Returns the path of the model's file, which is created if it does not exist. All tests of a machine and
 * parallel workers share the files, so a test must copy a file before it changes it (see
 * `damaged-model.ts`).
 */
export async function getModelFile(preset: Preset, options: ModelOptions = {}): Promise<string> {
  const directory = join(tmpdir(), "berth-test-models");
  const key = createHash("sha256").update(await generatorDigest());
  key.update(JSON.stringify([preset, options], Object.keys(options).toSorted()));
  const path = join(directory, `${preset}-${key.digest("hex").slice(0, 16)}.gguf`);
  if (await fileExists(path)) return path;
  await mkdir(directory, { recursive: true });
  await writePresetModel(path, preset, options);
  return path;
}

/**
 * Writes the model to a temporary file next to `path` and renames the file, so that no process reads a partial file.
 */
export async function writePresetModel(
  path: string,
  preset: Preset,
  options: ModelOptions = {},
): Promise<void> {
  const part = `${path}.${randomUUID()}.part`;
  try {
    const file = await open(part, "wx");
    try {
      await writeGguf(file, buildPresetModel(preset, options));
    } finally {
      await file.close();
    }
    await rename(part, path);
  } finally {
    await rm(part, { force: true });
  }
}

export function buildPresetModel(preset: Preset, options: ModelOptions): GgufFile {
  if (preset === "embedding") {
    return buildBertModel({
      name: options.name ?? "Embedding Random",
      seed: options.seed ?? 1,
      type: "F32",
      embeddingLength: 64,
      layers: 2,
      heads: 4,
      feedForwardLength: 128,
      contextTokens: options.contextTokens ?? 512,
    });
  }
  const shape = llamaPresets[preset];
  return buildLlamaModel({
    ...shape,
    name: options.name ?? shape.name,
    seed: options.seed ?? shape.seed,
    type: options.type ?? shape.type,
    contextTokens: options.contextTokens ?? shape.contextTokens,
    vocabularySize: options.vocabularySize ?? shape.vocabularySize,
    template: options.template === null ? undefined : (options.template ?? shape.template),
    endsAfter: options.endsAfter === null ? undefined : (options.endsAfter ?? shape.endsAfter),
    notANumber: options.notANumber ?? false,
  });
}

/** Returns a part of the file name that changes with the generator, so that a changed generator creates new files. */
async function generatorDigest(): Promise<string> {
  const digest = createHash("sha256");
  for (const name of (await readdir(import.meta.dirname)).toSorted()) {
    digest.update(await readFile(join(import.meta.dirname, name)));
  }
  return digest.digest("hex");
}

async function fileExists(path: string): Promise<boolean> {
  try {
    await access(path);
    return true;
  } catch {
    return false;
  }
}
