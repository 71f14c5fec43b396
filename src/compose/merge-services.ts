import {
  appendPath,
  type ComposeNode,
  type Entry,
  emptyMapping,
  isNull,
  type List,
  type Mapping,
  type Scalar,
} from "./compose-tree.ts";

/** The path of a key within a service, such as `ports` or `deploy.labels`. */
type ServicePath = string;

/**
 * Keys whose lists a later file replaces as a whole, because two partly merged command lines would not be a valid
 * command.
 */
const replacedLists: ReadonlySet<ServicePath> = new Set([
  "command",
  "entrypoint",
  "healthcheck.test",
]);

/**
 * Keys whose lists contain `NAME=value` or names. Such a list is a short form of a mapping, so the lists of several
 * files are merged by name.
 */
const keyedLists: ReadonlySet<ServicePath> = new Set([
  "environment",
  "labels",
  "annotations",
  "sysctls",
  "extra_hosts",
  "depends_on",
  "networks",
  "build.args",
  "build.labels",
  "build.extra_hosts",
  "deploy.labels",
]);

/**
 * Merges a service over another one, as Compose does for several files and for `extends`: merges mappings by
 * key, appends lists, and replaces all other values. Applies `!reset` and `!override`.
 */
export function mergeServices(base: Mapping, over: Mapping): Mapping {
  return mergeMappings(base, over, "");
}

/**
 * Merges two mappings by key, as `mergeServices` does. `place` is the path of the mappings within a service, such as
 * `deploy.labels`, or the name of a top-level section, such as `volumes`. The merge rule of each value depends on its
 * path.
 */
export function mergeMappings(base: Mapping, over: Mapping, place: ServicePath): Mapping {
  const entries = new Map(base.entries);
  for (const entry of over.entries.values()) {
    const before = entries.get(entry.key);
    if (entry.value.tag === "reset") entries.delete(entry.key);
    else if (!before || entry.value.tag === "override") entries.set(entry.key, entry);
    else {
      const value = mergeValues(before.value, entry.value, appendPath(place, entry.key));
      entries.set(entry.key, { ...entry, value });
    }
  }
  return { ...over, entries };
}

function mergeValues(base: ComposeNode, over: ComposeNode, place: ServicePath): ComposeNode {
  if (isNull(over)) return place === "" ? base : over;
  if (replacedLists.has(place)) return over;
  if (keyedLists.has(place)) return mergeMappings(asMapping(base), asMapping(over), place);
  if (place === "build") return mergeMappings(withContext(base), withContext(over), place);
  if (place === "env_file") return joinLists(asList(base), asList(over), getIdentity);
  if (base.kind === "map" && over.kind === "map") return mergeMappings(base, over, place);
  if (base.kind === "list" && over.kind === "list") {
    return joinLists(base, over, place === "volumes" ? getMountTarget : getIdentity);
  }
  return over;
}

/** Joins two lists. An item of the later list replaces the item of the earlier list that has the same identity. */
function joinLists(base: List, over: List, identityOf: (item: ComposeNode) => string): List {
  const items = new Map<string, ComposeNode>();
  for (const item of [...base.items, ...over.items]) items.set(identityOf(item), item);
  return { ...over, items: [...items.values()] };
}

function getIdentity(item: ComposeNode): string {
  if (item.kind === "scalar") return item.text;
  if (item.kind === "list") return JSON.stringify(item.items.map(getIdentity));
  return JSON.stringify(
    [...item.entries]
      .map(([key, { value }]) => JSON.stringify([key, getIdentity(value)]))
      .toSorted(),
  );
}

/** Returns the target path of a mount; volumes with the same target are merged. */
function getMountTarget(item: ComposeNode): string {
  if (item.kind === "map") {
    const target = item.entries.get("target")?.value;
    return target?.kind === "scalar" ? target.text : getIdentity(item);
  }
  if (item.kind === "list") return getIdentity(item);
  const parts = item.text.split(":");
  const target =
    parts.length === 1 ? parts[0] : parts.find((part, at) => at > 0 && part.startsWith("/"));
  return target ?? item.text;
}

/** Converts `[A=1, B]` to `{ A: 1, B: null }`; each value keeps the location of its list item. */
export function asMapping(node: ComposeNode): Mapping {
  if (node.kind === "map") return node;
  const entries = new Map<string, Entry>();
  for (const item of node.kind === "list" ? node.items : []) {
    if (item.kind !== "scalar") continue;
    const at = item.text.search(/[=:]/);
    const separator = node.path.endsWith("extra_hosts") ? at : item.text.indexOf("=");
    const key = separator === -1 ? item.text : item.text.slice(0, separator);
    const text = separator === -1 ? undefined : item.text.slice(separator + 1);
    const value: Scalar = { ...item, value: text ?? null, text: text ?? "" };
    entries.set(key, { key, place: item.place, value });
  }
  return { kind: "map", place: node.place, path: node.path, entries };
}

function withContext(node: ComposeNode): Mapping {
  if (node.kind === "map") return node;
  const entry: Entry = { key: "context", place: node.place, value: node };
  return { ...emptyMapping(node.place, node.path), entries: new Map([["context", entry]]) };
}

function asList(node: ComposeNode): List {
  return node.kind === "list"
    ? node
    : { kind: "list", place: node.place, path: node.path, items: [node] };
}
