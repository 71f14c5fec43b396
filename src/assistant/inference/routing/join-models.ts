import type { ModelInfo } from "../service-port.ts";

/**
 * The models of both sides with the aliases between them, so that a client's list of models has them at hand. A
 * name that an alias hides is told as the alias.
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

/** An alias as a model: what is known of the first model behind it. */
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
