import { isAlias, isMap, isScalar, isSeq, type Node, type Pair, type Scalar } from "yaml";
import { forbiddenKeys } from "../resources/plain-value.ts";
import { readYaml } from "../resources/yaml-documents.ts";
import {
  appendPath,
  type ComposeNode,
  type ComposeSource,
  type Entry,
  type Mapping,
  type Tag,
} from "./compose-tree.ts";
import { createFailedFinding, type FailedFinding } from "./import-findings.ts";

export interface ParsedComposeFile {
  /** The root of the tree; undefined if the file has problems. */
  readonly root: Mapping | undefined;
  readonly problems: readonly FailedFinding[];
}

/**
 * The maximum number of values in a file, far more than a project has. Nested aliases could exceed it with a few lines.
 */
const NODES_MAX = 100_000;
/** The maximum total length of the texts of a file after its aliases are expanded, in characters. */
const CHARACTERS_MAX = 8 * 1_048_576;
/** The maximum number of problems that are listed for one file. */
const PROBLEMS_MAX = 100;
/** The types of YAML that a Compose file can contain. */
const standardTags: ReadonlySet<string> = new Set(
  ["str", "int", "float", "bool", "null", "map", "seq", "merge"].map(
    (type) => `tag:yaml.org,2002:${type}`,
  ),
);

/** Parses a Compose file into a tree, with anchors, aliases and `<<` resolved. Never throws. */
export function parseComposeText(text: string, source: ComposeSource): ParsedComposeFile {
  const content = text.replace(/^\uFEFF/, "");
  const yaml = readYaml(content, 1);
  const at = (offset: number) => {
    const { line, col } = yaml.lines.linePos(offset);
    return { source, line: Math.max(1, line), column: Math.max(1, col) };
  };
  const problems: FailedFinding[] = [];
  const problem = (offset: number, message: string) => {
    if (problems.length < PROBLEMS_MAX) problems.push(createFailedFinding(at(offset), message));
  };
  if (yaml.stopped) {
    problem(yaml.stopped.offset, yaml.stopped.message);
    return { root: undefined, problems };
  }
  const [document] = yaml.documents;
  for (const { code, pos, message } of document?.errors ?? []) {
    // The parser has no tag for `<<`, so this key is recognised by its name.
    if (code === "NON_STRING_KEY" && content.slice(...pos) === "!!merge") continue;
    problem(pos[0], `not valid YAML: ${message}`);
  }
  if (!document || problems.length > 0) {
    if (!document) problem(0, "the file is empty");
    return { root: undefined, problems };
  }

  const anchors = new Map<string, Anchor>();
  let nodes = 0;
  let characters = 0;

  const read = (node: Node | null, path: string, parent: number): ComposeNode => {
    nodes += 1;
    const offset = node?.range?.[0] ?? parent;
    const nothing: ComposeNode = { kind: "scalar", place: at(offset), path, value: null, text: "" };
    if (node === null || nodes > NODES_MAX || characters > CHARACTERS_MAX) return nothing;
    if (isAlias(node)) {
      const anchor = anchors.get(node.source);
      if (!anchor) problem(offset, `there is no anchor &${node.source} before this alias`);
      else if (!anchor.node) problem(offset, `the alias *${node.source} contains itself`);
      nodes += anchor?.nodes ?? 0;
      characters += anchor?.characters ?? 0;
      return anchor?.node ?? nothing;
    }
    const before = { nodes, characters };
    const anchor: Anchor = { node: undefined, nodes: 0, characters: 0 };
    if ("anchor" in node && node.anchor !== undefined) anchors.set(node.anchor, anchor);
    const tag = parseTag(node.tag);
    if (tag === "unknown") problem(offset, `the tag ${node.tag} is not a tag of Compose`);
    const common = {
      place: at(offset),
      path,
      ...(tag === "reset" || tag === "override" ? { tag } : {}),
    };
    let result: ComposeNode = { ...common, kind: "scalar", value: null, text: "" };
    if (isMap<Node, Node | null>(node)) {
      result = { ...common, kind: "map", entries: readEntries(node.items, path) };
    } else if (isSeq<Node | null>(node)) {
      const items = node.items.map((item, index) => read(item, appendPath(path, index), offset));
      result = { ...common, kind: "list", items };
    } else if (isScalar(node)) {
      const value = getScalarValue(node);
      result = { ...common, kind: "scalar", value, text: getScalarText(node, value) };
      characters += result.text.length;
    }
    anchor.node = result;
    anchor.nodes = nodes - before.nodes;
    anchor.characters = characters - before.characters;
    return result;
  };

  const readEntries = (items: readonly Pair<Node, Node | null>[], path: string) => {
    const own = new Map<string, Entry>();
    const merged = new Map<string, Entry>();
    for (const { key, value } of items) {
      const offset = key.range?.[0] ?? 0;
      const name = isScalar(key) ? getScalarText(key, getScalarValue(key)) : undefined;
      if (name === undefined || forbiddenKeys.has(name)) {
        problem(
          offset,
          name === undefined ? "a key must be plain text" : `the key "${name}" is not allowed`,
        );
        continue;
      }
      if (name === "<<") {
        const merge = read(value, path, offset);
        for (const part of merge.kind === "list" ? merge.items : [merge]) {
          if (part.kind !== "map") problem(offset, "<< needs a mapping or a list of mappings");
          else
            for (const entry of part.entries.values())
              if (!merged.has(entry.key)) merged.set(entry.key, entry);
        }
        continue;
      }
      if (own.has(name)) problem(offset, `the key "${name}" is duplicated`);
      const place = at(offset);
      own.set(name, { key: name, place, value: read(value, appendPath(path, name), offset) });
    }
    return new Map([...[...merged].filter(([name]) => !own.has(name)), ...own]);
  };

  const root = read(document.contents, "", 0);
  if (nodes > NODES_MAX || characters > CHARACTERS_MAX)
    problem(0, "the file is too large after its aliases are expanded");
  else if (root.kind !== "map")
    problem(0, "a Compose file must be a mapping with the key services");
  return { root: root.kind === "map" && problems.length === 0 ? root : undefined, problems };
}

/** A value that aliases can repeat; `node` is undefined while the value is being read. */
interface Anchor {
  node: ComposeNode | undefined;
  nodes: number;
  characters: number;
}

function parseTag(tag: string | undefined): Tag | "standard" | "unknown" | undefined {
  if (tag === undefined || tag === "!") return undefined;
  if (tag === "!reset") return "reset";
  if (tag === "!override") return "override";
  return standardTags.has(tag) ? "standard" : "unknown";
}

function getScalarValue(node: Scalar): string | number | boolean | null {
  const { value } = node;
  if (value === null || typeof value === "string" || typeof value === "boolean") return value;
  return typeof value === "number" ? value : (node.source ?? null);
}

function getScalarText(node: Scalar, value: string | number | boolean | null): string {
  if (value === null) return "";
  return typeof value === "string" ? value : (node.source ?? String(value));
}
