import { createHash, randomUUID } from "node:crypto";
import { access, mkdir, open, readdir, readFile, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buildBertModel } from "./bert-architecture.ts";
import { buildLlamaModel, type LlamaShape } from "./llama-architecture.ts";
import { chatTemplate } from "./sample-chat-template.ts";
import { type GgufFile, writeGguf } from "./write-gguf.ts";

/** What a test may want different from a preset. */
export interface ModelOptions {
  readonly seed?: number;
  /** `general.name`. */
  readonly name?: string;
  /** What the file says it was trained with, in tokens. */
  readonly contextTokens?: number;
  /** Not for `embedding`, which has no choice of these. */
  readonly vocabularySize?: number;
  /** The chat template; null: none, which makes it a completion model. */
  readonly template?: string | null;
  /** Tokens of an answer on average at temperature 1; null: an answer never ends by itself. */
  readonly endsAfter?: number | null;
  /** Every logit is NaN. */
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

/** Shapes by name; sizes of the files beside them. */
const llamaPresets = {
  /** 0.4 MB: what goes on around the model is all that costs. */
  tiny,
  /** 0.4 MB; a context that takes far more memory than the weights. */
  "wide-context": { ...tiny, name: "Wide Random", contextTokens: 131_072 },
  /** 9 MB, in F16. */
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
  /** 34 MB; never ends by itself, for measurements. */
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
  /** 236 MB; bound by computing, as real models are. Never ends by itself. */
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
 * The path of such a file, which is made unless it is there. Files are shared by all tests of a machine
 * and by parallel workers: nobody may change one; copy it first, as `damage.ts` does.
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

/** Writes it beside the path and renames it there, so that nobody ever reads half a file. */
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
    contextTokens: options.contextTokens ?? shape.contextTokens,
    vocabularySize: options.vocabularySize ?? shape.vocabularySize,
    template: options.template === null ? undefined : (options.template ?? shape.template),
    endsAfter: options.endsAfter === null ? undefined : (options.endsAfter ?? shape.endsAfter),
    notANumber: options.notANumber ?? false,
  });
}

/** A change of the generator makes new files. */
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
