import { createHash } from "node:crypto";
import { type FileHandle, open } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { getErrorCode } from "../../../../base/errors.ts";
import { AssistantError } from "../../../assistant-error.ts";
import type { ModelFacts, ModelFile } from "../../inference-engine.ts";
import { embeddingArchitectures, knownArchitectures } from "./architectures.ts";
import { GgufError } from "./gguf-error.ts";
import { type GgufHeader, readHeader } from "./gguf-header.ts";
import { estimateEmbeddingMemory, estimateGenerationMemory } from "./memory-estimate.ts";
import { readModelShape } from "./model-shape.ts";
import { getFileTypeName } from "./tensor-types.ts";

export interface ModelInspection {
  readonly facts: ModelFacts;
  /** Changes whenever the file changes; not a cryptographic digest of its contents. */
  readonly digest: string;
}

/** The number of bytes in the digest, enough to distinguish two files of the same size and time. */
const DIGEST_BYTES = 64 * 1024;

/**
 * Reads the facts of a model from its file, or from all parts of a split model. Rejects with AssistantError
 * `model_unusable` if the file is damaged, truncated, implausible or of an unknown architecture. Native
 * code, which may abort its process for such a file, does not read it.
 */
export async function inspectModel(file: ModelFile, signal: AbortSignal): Promise<ModelInspection> {
  try {
    const parts = await readParts(file.path, signal);
    const facts = replaceTemplate(readFacts(parts), file.chatTemplate);
    return { facts, digest: parts.map(({ digest }) => digest).join("-") };
  } catch (error) {
    if (signal.aborted) throw error;
    throw new AssistantError("model_unusable", describeError(file.id, error), { cause: error });
  }
}

/** A template makes a chat model of a base model, but not of an embedding model. */
function replaceTemplate(facts: ModelFacts, chatTemplate: string | undefined): ModelFacts {
  if (chatTemplate === undefined) return facts;
  return { ...facts, chatTemplate, kind: facts.kind === "embedding" ? "embedding" : "chat" };
}

function describeError(id: string, error: unknown): string {
  if (error instanceof GgufError) {
    return `the file of model "${id}" cannot be used: ${error.message}; download it again, or use another file`;
  }
  const code = getErrorCode(error) ?? "";
  if (code === "ENOENT")
    return `the file of model "${id}" does not exist; download it, or use another model`;
  if (code === "EACCES" || code === "EPERM") {
    return `the assistant's user may not read the file of model "${id}"; change its permissions`;
  }
  if (code === "EISDIR") return `the path of model "${id}" is a folder, not a file`;
  return `the file of model "${id}" cannot be read${code && ` (${code})`}`;
}

interface FilePart {
  readonly header: GgufHeader;
  readonly fileBytes: number;
  readonly digest: string;
}

async function readParts(
  path: string,
  signal: AbortSignal,
): Promise<readonly [FilePart, ...FilePart[]]> {
  const first = await readPart(path, signal);
  const count = getNumber(first.header, "split.count") ?? 1;
  if (count <= 1) return [first];
  const partNumber = getNumber(first.header, "split.no") ?? 0;
  if (partNumber !== 0) {
    throw new GgufError(
      `the file is part ${partNumber + 1} of ${count} of a model; use the path of the first part`,
    );
  }
  const named = /^(.*-)00001(-of-\d{5}\.gguf)$/.exec(basename(path));
  if (!named)
    throw new GgufError(`the file is part 1 of ${count}, but is not named NAME-00001-of-N.gguf`);
  const parts: [FilePart, ...FilePart[]] = [first];
  for (let index = 2; index <= count; index++) {
    const name = `${named[1]}${String(index).padStart(5, "0")}${named[2]}`;
    parts.push(await readLaterPart(join(dirname(path), name), index, count, signal));
  }
  return parts;
}

async function readLaterPart(path: string, index: number, count: number, signal: AbortSignal) {
  try {
    return await readPart(path, signal);
  } catch (error) {
    if (signal.aborted) throw error;
    const why =
      error instanceof GgufError
        ? error.message
        : "the file is not in the folder of the first part";
    throw new GgufError(`part ${index} of ${count}: ${why}`);
  }
}

async function readPart(path: string, signal: AbortSignal): Promise<FilePart> {
  signal.throwIfAborted();
  await using file = await open(path, "r");
  const stat = await file.stat();
  if (!stat.isFile()) throw new GgufError("the path is not a regular file");
  const header = await readHeader(file, stat.size, signal);
  return { header, fileBytes: stat.size, digest: await computeDigest(file, stat) };
}

async function computeDigest(
  file: FileHandle,
  stat: { size: number; mtimeMs: number },
): Promise<string> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(DIGEST_BYTES), 0, DIGEST_BYTES, 0);
  return createHash("sha256")
    .update(`${stat.size} ${stat.mtimeMs} `)
    .update(buffer.subarray(0, bytesRead))
    .digest("hex")
    .slice(0, 32);
}

function readFacts(parts: readonly [FilePart, ...FilePart[]]): ModelFacts {
  const [{ header }] = parts;
  const architecture = getText(header, "general.architecture");
  if (architecture === "clip") {
    throw new GgufError("the file contains the image encoder of a model, not its language model");
  }
  if (architecture !== undefined && !knownArchitectures.has(architecture)) {
    throw new GgufError(`the architecture "${architecture.slice(0, 64)}" is not supported`);
  }
  const shape = readModelShape(header);
  const tensors = parts.flatMap((part) => part.header.tensors);
  if (tensors.length === 0) throw new GgufError("the file contains no weights");
  const weightBytes = tensors.reduce((sum, { bytes }) => sum + bytes, 0);
  const kind = detectKind(header, shape.architecture);
  const memory = kind === "embedding" ? estimateEmbeddingMemory : estimateGenerationMemory;
  return {
    architecture: shape.architecture,
    name: getText(header, "general.name"),
    parameters: tensors.reduce((sum, { values }) => sum + values, 0),
    quantization: detectQuantization(header),
    fileBytes: parts.reduce((sum, { fileBytes }) => sum + fileBytes, 0),
    trainedContextTokens: shape.trainedContextTokens,
    embeddingLength: shape.embeddingLength,
    kind,
    chatTemplate: getText(header, "tokenizer.chat_template"),
    memoryBytes: (options) => Math.ceil(memory(shape, weightBytes, options)),
  };
}

/**
 * Detects the kind of a model. The pooling type of embedding models is checked before the chat template, because
 * Qwen3-Embedding has both.
 */
function detectKind(header: GgufHeader, architecture: string): ModelFacts["kind"] {
  const pooling = getNumber(header, `${architecture}.pooling_type`) ?? 0;
  if (embeddingArchitectures.has(architecture) || pooling > 0) return "embedding";
  return getText(header, "tokenizer.chat_template") ? "chat" : "completion";
}

function detectQuantization(header: GgufHeader): string | undefined {
  const id = getNumber(header, "general.file_type");
  const named = id === undefined ? undefined : getFileTypeName(id);
  if (named !== undefined) return named;
  const bytesByType = new Map<string, number>();
  for (const { type, bytes } of header.tensors) {
    bytesByType.set(type.name, (bytesByType.get(type.name) ?? 0) + bytes);
  }
  return [...bytesByType].toSorted(([, one], [, other]) => other - one)[0]?.[0];
}

function getText(header: GgufHeader, key: string): string | undefined {
  const value = header.metadata.get(key);
  return typeof value === "string" && value !== "" ? value : undefined;
}

function getNumber(header: GgufHeader, key: string): number | undefined {
  const value = header.metadata.get(key);
  return typeof value === "number" ? value : undefined;
}
