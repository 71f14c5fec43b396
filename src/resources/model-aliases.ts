import { parseModelSource } from "./model-source.ts";
import type { ModelSpec } from "./model-spec.ts";
import type { Resource } from "./resource.ts";

/** Matches the aliases that the assistant accepts. A repository whose name does not match gives its Model no alias. */
const ALIAS_PATTERN = /^[A-Za-z0-9][\w.-]*\/[A-Za-z0-9][\w.-]*(:[\w.-]+)?$/;

/** Returns `org/name`; undefined for a URL and for a file. */
export function getRepository(spec: ModelSpec): string | undefined {
  const parsed = parseModelSource(spec.source);
  return "source" in parsed && parsed.source.type === "repository" ? parsed.source.id : undefined;
}

/**
 * Returns further names for clients: the repository, and the repository with its quantization, as llama.cpp and Ollama
 * write it. A name is returned only if it is unique among the Models that are to run. Pure.
 */
export function listModelAliases(
  model: {
    readonly name: string;
    readonly spec: ModelSpec;
    /** The quantization of the file to which the source was resolved; null if unknown. */
    readonly quantization: string | null;
  },
  all: readonly Resource<"Model">[],
): string[] {
  const { name, quantization } = model;
  const repository = getRepository(model.spec);
  if (repository === undefined) return [];
  const others = all.filter(
    ({ metadata, spec }) =>
      metadata.name !== name && spec.source === repository && spec.running === true,
  );
  const isTagShared = others.some(
    ({ status }) => status?.memory.pin?.model.quantization === quantization,
  );
  return [
    ...(others.length > 0 ? [] : [repository]),
    ...(quantization === null || isTagShared ? [] : [`${repository}:${quantization}`]),
  ].filter((alias) => ALIAS_PATTERN.test(alias));
}
