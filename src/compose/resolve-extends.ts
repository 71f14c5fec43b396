import { type ComposeNode, getValue, listEntries, type Mapping } from "./compose-tree.ts";
import { createFailedFinding, type FailedFinding } from "./import-findings.ts";
import { mergeServices } from "./merge-services.ts";

/** The services of another file, named by a node of this one; undefined where it cannot be read. */
export type OpenServices = (file: ComposeNode & { kind: "scalar" }) => Mapping | undefined;

/** Longer chains than this are a mistake. */
const CHAIN_MAX = 20;

export interface ExtendedServices {
  readonly services: Mapping;
  readonly problems: readonly FailedFinding[];
  /** Services of which a part is missing. */
  readonly failed: ReadonlySet<string>;
}

/**
 * Lays every service over the one that it extends, in this file or in another local one. A service
 * whose base cannot be had stays as it is written, with a problem.
 */
export function resolveExtends(services: Mapping, open: OpenServices): ExtendedServices {
  const problems: FailedFinding[] = [];
  const failed = new Set<string>();

  const resolve = (
    name: string,
    service: ComposeNode,
    siblings: Mapping,
    chain: readonly ComposeNode[],
    root: string,
  ): ComposeNode => {
    const reference = getValue(service, "extends");
    if (!reference || service.kind !== "map") return service;
    const own = removeKey(service, "extends");
    const fail = (message: string): ComposeNode => {
      problems.push({
        ...createFailedFinding(reference.place, message),
        service: root,
        key: reference.path,
      });
      failed.add(root);
      return own;
    };
    if (chain.includes(service)) return fail(`extends goes in a circle at the service "${name}"`);
    if (chain.length >= CHAIN_MAX) return fail(`extends is more than ${CHAIN_MAX} services long`);
    const target = reference.kind === "scalar" ? reference : getValue(reference, "service");
    if (target?.kind !== "scalar") return fail("extends names no service");
    const file = getValue(reference, "file");
    if (file && file.kind !== "scalar") return fail("extends.file is the path of one file");
    const candidates = file ? open(file) : siblings;
    if (!candidates) {
      failed.add(root);
      return own;
    }
    const base = getValue(candidates, target.text);
    if (base?.kind !== "map") return fail(`there is no service "${target.text}" to extend`);
    const resolved = resolve(target.text, base, candidates, [...chain, service], root);
    return resolved.kind === "map" ? mergeServices(resolved, own) : own;
  };

  const entries = listEntries(services).map((entry) => {
    const value = resolve(entry.key, entry.value, services, [], entry.key);
    return [entry.key, { ...entry, value }] as const;
  });
  return { services: { ...services, entries: new Map(entries) }, problems, failed };
}

function removeKey(service: Mapping, key: string): Mapping {
  return { ...service, entries: new Map([...service.entries].filter(([name]) => name !== key)) };
}
