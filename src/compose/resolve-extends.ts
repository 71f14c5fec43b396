import {
  type ComposeNode,
  getValue,
  listChildren,
  listEntries,
  type Mapping,
} from "./compose-tree.ts";
import { createFailedFinding, type FailedFinding } from "./import-findings.ts";
import { mergeServices } from "./merge-services.ts";

/** Reads the services of the file that `extends.file` names; undefined if the file cannot be read. */
export type OpenServices = (file: ComposeNode & { kind: "scalar" }) => Mapping | undefined;

/** The maximum length of a chain of services that extend each other. */
const CHAIN_MAX = 20;
/** The maximum number of values that all services of a file together may get from the services that they extend. */
const NODES_MAX = 100_000;

export interface ExtendedServices {
  readonly services: Mapping;
  readonly problems: readonly FailedFinding[];
  /** Names of services of which a part could not be read. */
  readonly failed: ReadonlySet<string>;
}

/**
 * Merges every service over the service that it extends, in this file or in another local file. A service whose base
 * cannot be read is not changed, and the problem is reported.
 */
export function resolveExtends(services: Mapping, open: OpenServices): ExtendedServices {
  const problems: FailedFinding[] = [];
  const failed = new Set<string>();
  let nodes = 0;

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
    if (chain.includes(service))
      return fail(`the services extend each other in a circle at "${name}"`);
    if (chain.length >= CHAIN_MAX)
      return fail(`the chain of extends is longer than ${CHAIN_MAX} services`);
    const target = reference.kind === "scalar" ? reference : getValue(reference, "service");
    if (target?.kind !== "scalar") return fail("extends names no service");
    const file = getValue(reference, "file");
    if (file && file.kind !== "scalar") return fail("extends.file must be the path of one file");
    const candidates = file ? open(file) : siblings;
    if (!candidates) {
      failed.add(root);
      return own;
    }
    const base = getValue(candidates, target.text);
    if (base?.kind !== "map") return fail(`there is no service "${target.text}" to extend`);
    const resolved = resolve(target.text, base, candidates, [...chain, service], root);
    nodes += countNodes(resolved, NODES_MAX - nodes);
    if (nodes > NODES_MAX) return fail("the file is too large after its services are extended");
    return resolved.kind === "map" ? mergeServices(resolved, own) : own;
  };

  const entries = listEntries(services).map((entry) => {
    const value = resolve(entry.key, entry.value, services, [], entry.key);
    return [entry.key, { ...entry, value }] as const;
  });
  return { services: { ...services, entries: new Map(entries) }, problems, failed };
}

/** Counts the values of a tree, until the count exceeds `limit`. */
function countNodes(node: ComposeNode, limit: number): number {
  let count = 1;
  for (const child of listChildren(node)) {
    if (count > limit) break;
    count += countNodes(child, limit - count);
  }
  return count;
}

function removeKey(service: Mapping, key: string): Mapping {
  return { ...service, entries: new Map([...service.entries].filter(([name]) => name !== key)) };
}
