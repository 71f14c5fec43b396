/** A file of the project. Its relative paths refer to `folder`, even after the file was merged into another one. */
export interface ComposeSource {
  /** The path of the file, as messages show it. */
  readonly file: string;
  readonly folder: string;
}

/** Line and column are counted from 1. */
export interface SourceLocation {
  readonly source: ComposeSource;
  readonly line: number;
  readonly column: number;
}

/** The YAML tags of Compose: `!reset` removes the value of earlier files, `!override` replaces it. */
export type Tag = "reset" | "override";

interface LocatedNode {
  readonly place: SourceLocation;
  /** The path of the key, such as `services.web.ports[0]`. */
  readonly path: string;
  readonly tag?: Tag;
}

/**
 * A value of a Compose file with its location. The location is kept when anchors are resolved and when files and
 * services are merged, so that findings can name lines.
 */
export type ComposeNode = Scalar | List | Mapping;

export interface Scalar extends LocatedNode {
  readonly kind: "scalar";
  readonly value: string | number | boolean | null;
  /** The text as written, so that `1.10` stays `1.10`. Empty for null. */
  readonly text: string;
  /** The names of variables in the text that are not set. */
  readonly unsetVariables?: readonly string[];
  /**
   * The reason why variables in the text cannot be expanded, as in `${NAME:?reason}`; undefined if all can be expanded.
   */
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
  /** The location of `key` in its file. */
  readonly place: SourceLocation;
  readonly value: ComposeNode;
}

export function isNull(node: ComposeNode | undefined): boolean {
  return node?.kind === "scalar" && node.value === null;
}

/** Returns true if the scalar is one of the words for false in YAML 1.1, such as `no` or `off`. */
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

/** Returns all scalars of a tree in the order of the file. */
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
