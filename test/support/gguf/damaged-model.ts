import { open, readFile, truncate, writeFile } from "node:fs/promises";
import { buildPresetModel, writePresetModel } from "./preset-model.ts";
import { encodeHeader, type GgufFile, writeGguf } from "./write-gguf.ts";

/** The kinds of damage, by name. Each is applied to the model `tiny`. */
export const modelDamages = [
  "empty",
  "wrong-magic",
  /** A file with a version number that the GGUF format does not have. */
  "future-version",
  "truncated-header",
  "truncated-tensors",
  /** A file whose header claims 2^62 tensors. */
  "huge-tensor-count",
  "huge-metadata-count",
  /** A file whose first key claims a length of 2^40 bytes. */
  "huge-string",
  /** A file whose last tensor is far beyond the end of the file. */
  "offset-out-of-range",
  "unknown-architecture",
  "missing-tensor",
  /** A model that loads, but computes NaN for every logit. */
  "nan-weights",
] as const;

export type ModelDamage = (typeof modelDamages)[number];

/** Writes the model `tiny` with this kind of damage to the file `path`. */
export async function writeDamagedModel(path: string, damage: ModelDamage): Promise<void> {
  const model = buildPresetModel("tiny", { notANumber: damage === "nan-weights" });
  switch (damage) {
    case "unknown-architecture":
      return writeGgufFile(path, {
        ...model,
        metadata: new Map(model.metadata).set("general.architecture", {
          type: "string",
          value: "nonesuch",
        }),
      });
    case "missing-tensor":
      return writeGgufFile(path, {
        ...model,
        tensors: model.tensors.filter(({ name }) => name !== "output_norm.weight"),
      });
    case "nan-weights":
      return writeGgufFile(path, model);
    default:
      await writePresetModel(path, "tiny");
      return damageFile(path, damage, encodeHeader(model).length);
  }
}

type BytesDamage = Exclude<ModelDamage, "unknown-architecture" | "missing-tensor" | "nan-weights">;

/** The offsets of the numbers in the header: magic, version, tensors, metadata, first key. */
const HEADER_OFFSETS = { magic: 0, version: 4, tensors: 8, metadata: 16, firstKeyLength: 24 };

async function damageFile(path: string, damage: BytesDamage, headerBytes: number): Promise<void> {
  if (damage === "empty") return truncate(path, 0);
  if (damage === "truncated-header") return truncate(path, Math.floor(headerBytes / 2));
  const bytes = await readFile(path);
  if (damage === "truncated-tensors") {
    return truncate(path, headerBytes + Math.floor((bytes.length - headerBytes) / 2));
  }
  switch (damage) {
    case "wrong-magic":
      bytes.write("GGML", HEADER_OFFSETS.magic);
      break;
    case "future-version":
      bytes.writeUInt32LE(99, HEADER_OFFSETS.version);
      break;
    case "huge-tensor-count":
      bytes.writeBigUInt64LE(2n ** 62n, HEADER_OFFSETS.tensors);
      break;
    case "huge-metadata-count":
      bytes.writeBigUInt64LE(2n ** 62n, HEADER_OFFSETS.metadata);
      break;
    case "huge-string":
      bytes.writeBigUInt64LE(2n ** 40n, HEADER_OFFSETS.firstKeyLength);
      break;
    case "offset-out-of-range": {
      const name = "output.weight";
      const at = bytes.subarray(0, headerBytes).lastIndexOf(name) + name.length;
      // After the name of the tensor the file contains the number of dimensions, two dimensions, the type and the
      // offset.
      bytes.writeBigUInt64LE(2n ** 40n, at + 4 + 16 + 4);
    }
  }
  await writeFile(path, bytes);
}

async function writeGgufFile(path: string, model: GgufFile): Promise<void> {
  const file = await open(path, "w");
  try {
    await writeGguf(file, model);
  } finally {
    await file.close();
  }
}
