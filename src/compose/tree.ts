/** A file of the project. Relative paths in it start at `folder`, whichever file they end up in. */
export interface Source {
  /** As a person names it. */
  readonly file: string;
  readonly folder: string;
}

/** Line and column are counted from 1. */
export interface Place {
  readonly source: Source;
  readonly line: number;
  readonly column: number;
}

/** `!reset` takes away what earlier files say, `!override` takes its place. */
export type Tag = "reset" | "override";

interface Located {
  readonly place: Place;
  /** As people write it: `services.web.ports[0]`. */
  readonly path: string;
  readonly tag?: Tag;
}

/**
 * A value of a Compose file that knows where it was written. It still does after anchors, files and
 * services have been laid over each other, which is what makes a report with lines possible.
 */
export type ComposeNode = Scalar | List | Mapping;

export interface Scalar extends Located {
  readonly kind: "scalar";
  readonly value: string | number | boolean | null;
  /** As it was written: `1.10` stays `1.10`. Empty for null. */
  readonly text: string;
  /** Variables in it that are set nowhere. */
  readonly unset?: readonly string[];
  /** Why its variables cannot be filled in, as in `${NAME:?why}`. */
  readonly failure?: string;
}

export interface List extends Located {
  readonly kind: "list";
  readonly items: readonly ComposeNode[];
}

export interface Mapping extends Located {
  readonly kind: "map";
  readonly entries: ReadonlyMap<string, Entry>;
}

export interface Entry {
  readonly key: string;
  /** Of the key. */
  readonly place: Place;
  readonly value: ComposeNode;
}

export function isNull(node: ComposeNode | undefined): boolean {
  return node?.kind === "scalar" && node.value === null;
}

export function valueAt(node: ComposeNode | undefined, key: string): ComposeNode | undefined {
  return node?.kind === "map" ? node.entries.get(key)?.value : undefined;
}

export function entriesOf(node: ComposeNode | undefined): readonly Entry[] {
  return node?.kind === "map" ? [...node.entries.values()] : [];
}

export function emptyMapping(place: Place, path: string): Mapping {
  return { kind: "map", place, path, entries: new Map() };
}

export function below(path: string, key: string | number): string {
  if (typeof key === "number") return `${path}[${key}]`;
  const part = /^[A-Za-z0-9_-]+$/.test(key) ? key : JSON.stringify(key);
  return path === "" ? part : `${path}.${part}`;
}

/** A copy of a tree under another path, each scalar of it passed through `change`. */
export function copyTree(
  node: ComposeNode,
  path: string,
  change: (scalar: Scalar) => Scalar = (scalar) => scalar,
): ComposeNode {
  if (node.kind === "scalar") return change({ ...node, path });
  if (node.kind === "list") {
    const items = node.items.map((item, index) => copyTree(item, below(path, index), change));
    return { ...node, path, items };
  }
  const entries = new Map(
    entriesOf(node).map((entry) => [
      entry.key,
      { ...entry, value: copyTree(entry.value, below(path, entry.key), change) },
    ]),
  );
  return { ...node, path, entries };
}
