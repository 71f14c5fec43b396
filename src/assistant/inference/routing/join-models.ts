import type { ModelInfo } from "../service-port.ts";

/**
 * Joins local models, aliases and remote models into the list for clients. If an alias has the same name as a model,
 * only the alias is listed.
 */
export function joinModels(
  local: readonly ModelInfo[],
  remote: readonly ModelInfo[],
  aliases: ReadonlyMap<string, readonly string[]>,
): readonly ModelInfo[] {
  const known = new Map<string, ModelInfo>();
  for (const model of [...local, ...remote]) {
    for (const name of [model.id, ...model.aliases]) if (!known.has(name)) known.set(name, model);
  }
  const joined = new Map(local.map((model) => [model.id, omitHiddenAliases(model, aliases)]));
  for (const [alias, names] of aliases) {
    const first = names.find((name) => known.has(name));
    joined.set(alias, describeAlias(alias, first === undefined ? undefined : known.get(first)));
  }
  for (const model of remote) joined.set(model.id, model);
  return [...joined.values()];
}

/** Describes an alias as a model, with the facts of its first available model. */
export function describeAlias(alias: string, model: ModelInfo | undefined): ModelInfo {
  return {
    kind: "chat",
    state: "idle",
    createdSeconds: 0,
    contextTokens: undefined,
    embeddingLength: undefined,
    ...model,
    id: alias,
    aliases: [],
  };
}

function omitHiddenAliases(
  model: ModelInfo,
  hidden: ReadonlyMap<string, readonly string[]>,
): ModelInfo {
  return { ...model, aliases: model.aliases.filter((name) => !hidden.has(name)) };
}
