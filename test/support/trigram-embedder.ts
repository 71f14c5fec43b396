import type { ContextEmbedder } from "../../src/assistant/context/port.ts";

const DIMENSIONS = 512;

/**
 * A substitute for an embedding model: it hashes the three-letter pieces of a text's words, so that texts with similar
 * spelling have similar vectors. It shows how rankings are combined, but not the quality of a real model.
 */
export class TrigramEmbedder implements ContextEmbedder {
  id = "letters-1";
  readonly dimensions = DIMENSIONS;
  /** The texts for which vectors were requested. */
  readonly embeddedTexts: string[] = [];

  async embed(texts: readonly string[]): Promise<readonly Float32Array[]> {
    this.embeddedTexts.push(...texts);
    return texts.map(embedText);
  }
}

function embedText(text: string): Float32Array {
  const vector = new Float32Array(DIMENSIONS);
  for (const word of text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []) {
    if (word.length < 3) continue;
    const padded = `<${word}>`;
    for (let start = 0; start + 3 <= padded.length; start += 1) {
      const bucket = hashText(padded.slice(start, start + 3)) % DIMENSIONS;
      vector[bucket] = (vector[bucket] ?? 0) + 1 / Math.sqrt(word.length);
    }
  }
  const length = Math.hypot(...vector) || 1;
  return vector.map((value) => value / length);
}

function hashText(text: string): number {
  let hash = 2166136261;
  for (const character of text) hash = Math.imul(hash ^ (character.codePointAt(0) ?? 0), 16777619);
  return hash >>> 0;
}
