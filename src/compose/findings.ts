import type { ComposeNode, Entry, Place } from "./tree.ts";

/**
 * What an import has to say about one place of a Compose file.
 * - `note`: it is carried over, or has no effect that anybody would miss; something is still to be known.
 * - `lost`: something that the file asks for does not happen under Berth.
 * - `failed`: a service, or a whole file, could not be converted.
 */
export type FindingLevel = "note" | "lost" | "failed";

export interface Finding {
  readonly level: FindingLevel;
  /** Undefined for what stands outside the services. */
  readonly service: string | undefined;
  /** As people write it: `services.web.ports[0]`; empty for a whole file. */
  readonly key: string;
  readonly file: string;
  /** Counted from 1. */
  readonly line: number;
  readonly column: number;
  readonly message: string;
  readonly hint?: string;
}

/** Something wrong with a file as a whole, or with what it names. */
export type FileProblem = Finding & { readonly level: "failed" };

export function problemAt(place: Place, message: string, hint?: string): FileProblem {
  return { ...findingAt(place, "", undefined, message, hint), level: "failed" };
}

function findingAt(
  place: Place,
  key: string,
  service: string | undefined,
  message: string,
  hint: string | undefined,
): Omit<Finding, "level"> {
  const { source, line, column } = place;
  const at = { service, key, file: source.file, line, column, message };
  return hint === undefined ? at : { ...at, hint };
}

type Target = ComposeNode | Entry;

/** Gathers findings, and remembers which values of the files have been dealt with. */
export class FindingList {
  readonly #findings: Finding[] = [];
  readonly #known = new Set<string>();
  readonly #dealtWith = new Set<ComposeNode>();

  get findings(): readonly Finding[] {
    return this.#findings;
  }

  add(
    level: FindingLevel,
    service: string | undefined,
    target: Target,
    message: string,
    hint?: string,
  ): void {
    this.take("kind" in target ? target : target.value);
    this.mention(level, service, target, message, hint);
  }

  /** As add, for a value that somebody else still has to deal with. */
  mention(
    level: FindingLevel,
    service: string | undefined,
    target: Target,
    message: string,
    hint?: string,
  ): void {
    const node = "kind" in target ? target : target.value;
    const found = findingAt(target.place, node.path, service, message, hint);
    const identity = JSON.stringify([service, found.key, found.file, found.line, message]);
    if (this.#known.has(identity)) return;
    this.#known.add(identity);
    this.#findings.push({ level, ...found });
  }

  addProblems(problems: readonly Finding[]): void {
    this.#findings.push(...problems);
  }

  /** The value, and all below it, has become part of the result or of the report. */
  take(node: ComposeNode | undefined): void {
    if (!node) return;
    this.#dealtWith.add(node);
    for (const child of childrenOf(node)) this.take(child);
  }

  /** The topmost values below `node` that nobody has dealt with. */
  leftOver(node: ComposeNode): ComposeNode[] {
    if (this.#dealtWith.has(node)) {
      return childrenOf(node).flatMap((child) => this.leftOver(child));
    }
    const children = childrenOf(node);
    const left = children.flatMap((child) => this.leftOver(child));
    const isWhole = children.every((child) => left.includes(child));
    return isWhole ? [node] : left;
  }
}

export function childrenOf(node: ComposeNode): readonly ComposeNode[] {
  if (node.kind === "scalar") return [];
  return node.kind === "list" ? node.items : [...node.entries.values()].map(({ value }) => value);
}
