/** A file of the project. Relative paths in it start at `folder`, whichever file they end up in. */
export interface ComposeSource {
  /** As a person names it. */
  readonly file: string;
  readonly folder: string;
}

/** Line and column are counted from 1. */
export interface SourceLocation {
  readonly source: ComposeSource;
  readonly line: number;
  readonly column: number;
}

/** `!reset` takes away what earlier files say, `!override` takes its place. */
export type Tag = "reset" | "override";

interface LocatedNode {
  readonly place: SourceLocation;
  /** As people write it: `services.web.ports[0]`. */
  readonly path: string;
  readonly tag?: Tag;
}

/**
 * A value of a Compose file that knows where it was written. It still does after anchors, files and
 * services have been laid over each other, which is what makes a report with lines possible.
 */
export type ComposeNode = Scalar | List | Mapping;

export interface Scalar extends LocatedNode {
  readonly kind: "scalar";
  readonly value: string | number | boolean | null;
  /** As it was written: `1.10` stays `1.10`. Empty for null. */
  readonly text: string;
  /** Variables in it that are set nowhere. */
  readonly unsetVariables?: readonly string[];
  /** Why its variables cannot be filled in, as in `${NAME:?why}`. */
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
  /** Of the key. */
  readonly place: SourceLocation;
  readonly value: ComposeNode;
}

export function isNull(node: ComposeNode | undefined): boolean {
  return node?.kind === "scalar" && node.value === null;
}

/** True for what YAML 1.1 and people write as no. */
export function isFalse(node: ComposeNode): boolean {
  return node.kind === "scalar" && /^(false|no|off)$/i.test(node.text);
}

export function getValue(node: ComposeNode | undefined, key: string): ComposeNode | undefined {
  return node?.kind === "map" ? node.entries.get(key)?.value : undefined;
}

export function listEntries(node: ComposeNode | undefined): readonly Entry[] {
  return node?.kind === "map" ? [...node.entries.values()] : [];
}

/** The items of a list, or the single value in its place. */
export function listItems(node: ComposeNode | undefined): readonly ComposeNode[] {
  if (node === undefined) return [];
  return node.kind === "list" ? node.items : [node];
}

/** The texts among the items of a list, or the single text in its place; other values are skipped. */
export function listScalars(node: ComposeNode | undefined): Scalar[] {
  return listItems(node).flatMap((item) => (item.kind === "scalar" ? [item] : []));
}

export function listChildren(node: ComposeNode): readonly ComposeNode[] {
  if (node.kind === "scalar") return [];
  return node.kind === "list" ? node.items : [...node.entries.values()].map(({ value }) => value);
}

/** All scalars of a tree, in the order in which they are written. */
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

/** A copy of a tree under another path, each scalar of it passed through `change`. */
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
