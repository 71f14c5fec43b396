import type { AppSpec } from "./app-spec.ts";

/** Lists the names of all Secrets that a spec refers to. */
export function listReferencedSecrets(spec: AppSpec): readonly string[] {
  const names = new Set<string>();
  for (const value of Object.values(spec.env ?? {}))
    if (typeof value === "object") names.add(value.secret);
  for (const file of spec.files ?? []) if ("from" in file) names.add(file.from.secret);
  if (spec.pullSecret !== undefined) names.add(spec.pullSecret);
  if (spec.source && "git" in spec.source && spec.source.git.credential !== undefined)
    names.add(spec.source.git.credential);
  return [...names].toSorted();
}

/**
 * Lists the names of all Secrets whose values an App uses, including those of basic authentication and of the
 * signatures of git hooks.
 */
export function listAllReferencedSecrets(spec: AppSpec): readonly string[] {
  const { source, ingress } = spec;
  const hookSecret = source && "git" in source ? source.git.hookSecret : undefined;
  const basicAuth = ingress?.basicAuth?.secret;
  const others = [hookSecret, basicAuth].filter((name) => name !== undefined);
  return [...new Set([...listReferencedSecrets(spec), ...others])].toSorted();
}
