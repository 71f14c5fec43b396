import { mkdir, open } from "node:fs/promises";
import { join } from "node:path";
import { buildPresetModel, type ModelOptions, type Preset } from "./preset-model.ts";
import { type TypedMetadataValue, writeGguf } from "./write-gguf.ts";

/**
 * Writes a model in several files, as llama.cpp's gguf-split does: each file has some of the tensors, and the first
 * also has all metadata. Returns the names of the files in order.
 */
export async function writeSplitModel(
  dir: string,
  name: string,
  parts: number,
  preset: Preset,
  options: ModelOptions = {},
): Promise<readonly string[]> {
  await mkdir(dir, { recursive: true });
  const { metadata, tensors } = buildPresetModel(preset, options);
  const size = Math.ceil(tensors.length / parts);
  const names: string[] = [];
  // The tensors are written sequentially, because the weights come from one stream of random numbers.
  for (let part = 0; part < parts; part += 1) {
    const split: readonly (readonly [string, TypedMetadataValue])[] = [
      ["split.no", { type: "uint16", value: part }],
      ["split.count", { type: "uint16", value: parts }],
      ["split.tensors.count", { type: "int32", value: tensors.length }],
    ];
    const of = [part + 1, parts].map((number) => String(number).padStart(5, "0")).join("-of-");
    const fileName = `${name}-${of}.gguf`;
    const file = await open(join(dir, fileName), "wx");
    try {
      await writeGguf(file, {
        metadata: new Map([...(part === 0 ? metadata : []), ...split]),
        tensors: tensors.slice(part * size, (part + 1) * size),
      });
    } finally {
      await file.close();
    }
    names.push(fileName);
  }
  return names;
}
