import { type ComposeNode, type Entry, listChildren, type SourceLocation } from "./compose-tree.ts";

/**
 * What an import has to say about one place of a Compose file.
 * - `note`: it is carried over, or has no effect that anybody would miss; something is still to be known.
 * - `lost`: something that the file asks for does not happen under Berth.
 * - `failed`: a service, or a whole file, could not be converted.
 */
export type FindingLevel = "note" | "lost" | "failed";

export interface ImportFinding {
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
export type FailedFinding = ImportFinding & { readonly level: "failed" };

export function createFailedFinding(
  place: SourceLocation,
  message: string,
  hint?: string,
): FailedFinding {
  return { ...createFinding(place, "", undefined, message, hint), level: "failed" };
}

function createFinding(
  place: SourceLocation,
  key: string,
  service: string | undefined,
  message: string,
  hint: string | undefined,
): Omit<ImportFinding, "level"> {
  const { source, line, column } = place;
  const at = { service, key, file: source.file, line, column, message };
  return hint === undefined ? at : { ...at, hint };
}

type FindingTarget = ComposeNode | Entry;

/** Gathers findings, and remembers which values of the files have been dealt with. */
export class FindingList {
  readonly #findings: ImportFinding[] = [];
  readonly #identities = new Set<string>();
  readonly #handled = new Set<ComposeNode>();

  get findings(): readonly ImportFinding[] {
    return this.#findings;
  }

  add(
    level: FindingLevel,
    service: string | undefined,
    target: FindingTarget,
    message: string,
    hint?: string,
  ): void {
    this.markHandled("kind" in target ? target : target.value);
    this.addWithoutHandling(level, service, target, message, hint);
  }

  /** As add, for a value that somebody else still has to deal with. */
  addWithoutHandling(
    level: FindingLevel,
    service: string | undefined,
    target: FindingTarget,
    message: string,
    hint?: string,
  ): void {
    const node = "kind" in target ? target : target.value;
    const found = createFinding(target.place, node.path, service, message, hint);
    const identity = JSON.stringify([service, found.key, found.file, found.line, message]);
    if (this.#identities.has(identity)) return;
    this.#identities.add(identity);
    this.#findings.push({ level, ...found });
  }

  addProblems(problems: readonly ImportFinding[]): void {
    this.#findings.push(...problems);
  }

  /** The value, and all below it, has become part of the result or of the report. */
  markHandled(node: ComposeNode | undefined): void {
    if (!node) return;
    this.#handled.add(node);
    for (const child of listChildren(node)) this.markHandled(child);
  }

  /** The topmost values below `node` that nobody has dealt with. */
  findUnhandled(node: ComposeNode): ComposeNode[] {
    if (this.#handled.has(node)) {
      return listChildren(node).flatMap((child) => this.findUnhandled(child));
    }
    const children = listChildren(node);
    const left = children.flatMap((child) => this.findUnhandled(child));
    const isWhole = children.every((child) => left.includes(child));
    return isWhole ? [node] : left;
  }
}

