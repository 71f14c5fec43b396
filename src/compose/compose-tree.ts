/** A file of the project. Its relative paths start at `folder`, even after a merge into another file. */
export interface ComposeSource {
  /** The path that messages show. */
  readonly file: string;
  readonly folder: string;
}

/** Line and column are counted from 1. */
export interface SourceLocation {
  readonly source: ComposeSource;
  readonly line: number;
  readonly column: number;
}

/** `!reset` removes the value of earlier files, `!override` replaces it. */
export type Tag = "reset" | "override";

interface LocatedNode {
  readonly place: SourceLocation;
  /** The path of the key, such as `services.web.ports[0]`. */
  readonly path: string;
  readonly tag?: Tag;
}

/**
 * A value of a Compose file with its location. The location survives anchors and the merging of files and
 * services, so that findings can name lines.
 */
export type ComposeNode = Scalar | List | Mapping;

export interface Scalar extends LocatedNode {
  readonly kind: "scalar";
  readonly value: string | number | boolean | null;
  /** The text as written: `1.10` stays `1.10`. Empty for null. */
  readonly text: string;
  /** The variables in it that are not set. */
  readonly unsetVariables?: readonly string[];
  /** The reason why its variables cannot be expanded, as in `${NAME:?reason}`. */
  readonly failure?: string;
}

export interface List extends LocatedNode {
  readonly kind: "list";
  readonly items: readonly ComposeNode[];
}

export interface Mapping extends LocatedNode {
  readonly kind: "map";
  readonly entries: ReadonlyMap<string, Entry>;
}

export interface Entry {
  readonly key: string;
  /** The location of the key. */
  readonly place: SourceLocation;
  readonly value: ComposeNode;
}

export function isNull(node: ComposeNode | undefined): boolean {
  return node?.kind === "scalar" && node.value === null;
}

/** Returns true for the values that mean false in YAML 1.1. */
export function isFalse(node: ComposeNode): boolean {
  return node.kind === "scalar" && /^(false|no|off)$/i.test(node.text);
}

export function getValue(node: ComposeNode | undefined, key: string): ComposeNode | undefined {
  return node?.kind === "map" ? node.entries.get(key)?.value : undefined;
}

export function listEntries(node: ComposeNode | undefined): readonly Entry[] {
  return node?.kind === "map" ? [...node.entries.values()] : [];
}

/** Returns the items of a list; a single value counts as a list of one. */
export function listItems(node: ComposeNode | undefined): readonly ComposeNode[] {
  if (node === undefined) return [];
  return node.kind === "list" ? node.items : [node];
}

/** Returns the scalars of a list; a single scalar counts as a list of one, other values are skipped. */
export function listScalars(node: ComposeNode | undefined): Scalar[] {
  return listItems(node).flatMap((item) => (item.kind === "scalar" ? [item] : []));
}

export function listChildren(node: ComposeNode): readonly ComposeNode[] {
  if (node.kind === "scalar") return [];
  return node.kind === "list" ? node.items : [...node.entries.values()].map(({ value }) => value);
}

/** Returns all scalars of a tree in their order. */
export function collectScalars(node: ComposeNode | undefined): Scalar[] {
  if (node === undefined) return [];
  return node.kind === "scalar" ? [node] : listChildren(node).flatMap(collectScalars);
}

export function emptyMapping(place: SourceLocation, path: string): Mapping {
  return { kind: "map", place, path, entries: new Map() };
}

export function appendPath(path: string, key: string | number): string {
  if (typeof key === "number") return `${path}[${key}]`;
  const part = /^[A-Za-z0-9_-]+$/.test(key) ? key : JSON.stringify(key);
  return path === "" ? part : `${path}.${part}`;
}

/** Copies a tree to another path, and applies `transform` to each of its scalars. */
export function copyTree(
  node: ComposeNode,
  path: string,
  transform: (scalar: Scalar) => Scalar = (scalar) => scalar,
): ComposeNode {
  if (node.kind === "scalar") return transform({ ...node, path });
  if (node.kind === "list") {
    const items = node.items.map((item, index) =>
      copyTree(item, appendPath(path, index), transform),
    );
    return { ...node, path, items };
  }
  const entries = new Map(
    listEntries(node).map((entry) => [
      entry.key,
      { ...entry, value: copyTree(entry.value, appendPath(path, entry.key), transform) },
    ]),
  );
  return { ...node, path, entries };
}
