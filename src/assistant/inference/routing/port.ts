/** Which models a name stands for. */
export interface ModelRoutes {
  /**
   * The models that are tried for this name, in their order: what the person wrote down for an alias, else the
   * name itself. Never empty; undefined stands for the local default.
   */
  candidates(model: string | undefined): readonly (string | undefined)[];
}

const REMOTE = "remote:";

/** `remote:<provider>:<model>`; the model may hold colons itself. */
export interface RemoteModelName {
  readonly provider: string;
  readonly model: string;
}

export function isRemoteModel(name: string | undefined): boolean {
  return name?.startsWith(REMOTE) ?? false;
}

/** Undefined where the name is no remote one, or lacks a part. */
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
