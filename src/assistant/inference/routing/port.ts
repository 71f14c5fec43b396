/** Resolves the names that requests use for models. */
export interface ModelRoutes {
  /**
   * Returns the models to try for this name, in order: those that the user configured for an alias, or only the name
   * itself if it is not an alias. The list is never empty; undefined stands for the local default model.
   */
  candidates(model: string | undefined): readonly (string | undefined)[];
}

const REMOTE = "remote:";

/** The parsed name `remote:<provider>:<model>`; the model's part may contain colons. */
export interface RemoteModelName {
  readonly provider: string;
  readonly model: string;
}

export function isRemoteModel(name: string | undefined): boolean {
  return name?.startsWith(REMOTE) ?? false;
}

/** Parses the name of a remote model; returns undefined for any other name, or if a part is missing. */
export function parseRemoteModelName(name: string): RemoteModelName | undefined {
  if (!isRemoteModel(name)) return undefined;
  const rest = name.slice(REMOTE.length);
  const colon = rest.indexOf(":");
  if (colon < 1 || colon === rest.length - 1) return undefined;
  return { provider: rest.slice(0, colon), model: rest.slice(colon + 1) };
}

export function formatRemoteModelName({ provider, model }: RemoteModelName): string {
  return `${REMOTE}${provider}:${model}`;
}
