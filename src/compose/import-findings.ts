import {
  type ComposeNode,
  collectScalars,
  type Entry,
  emptyMapping,
  listChildren,
  type Scalar,
  type SourceLocation,
} from "./compose-tree.ts";

/**
 * The severities of findings, most severe first.
 * - `failed`: a service, or a whole file, could not be converted.
 * - `unsafe`: the App is less protected than the file requests, or reaches files outside of the project. Only a user
 *   can accept that.
 * - `lost`: Berth does not do something that the file requests.
 * - `changed`: the value is converted, and works in another way, so that the user may have to act.
 * - `note`: the value is converted, or has no effect that matters; the user should know a detail.
 */
export const findingLevels = ["failed", "unsafe", "lost", "changed", "note"] as const;
export type FindingLevel = (typeof findingLevels)[number];

export interface ImportFinding {
  readonly level: FindingLevel;
  /** The service of the finding; undefined for a finding outside the services. */
  readonly service: string | undefined;
  /** The path of the key, such as `services.web.ports[0]`; empty for a whole file. */
  readonly key: string;
  readonly file: string;
  /** The line number, counted from 1. */
  readonly line: number;
  readonly column: number;
  readonly message: string;
  readonly hint?: string;
}

/** An error that concerns a whole Compose file, or another file whose path the Compose file contains. */
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

/** What to do about a variable that is not set. */
export const UNSET_HINT = "set it in the project's .env, or with --env-file";

/** Collects findings, and tracks which values of a file were handled, which means converted or reported. */
export class FindingList {
  readonly #findings: ImportFinding[] = [];
  readonly #identities = new Set<string>();
  readonly #handled = new Set<ComposeNode>();
  /** The findings about unset variables, by service and key. */
  readonly #unset = new Map<string, ImportFinding>();

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

  /**
   * Adds a finding without marking its value as handled, because another conversion also reads the value. For a
   * service's value that could not be read, adds only the finding with that failure, because any other finding would
   * follow from the failure. The same applies to what is lost because a variable is not set; a failure replaces the
   * finding about the variable, and names the variable.
   */
  addWithoutHandling(
    level: FindingLevel,
    service: string | undefined,
    target: FindingTarget,
    message: string,
    hint?: string,
  ): void {
    const node = "kind" in target ? target : target.value;
    const unreadable = service === undefined ? undefined : findUnreadable(node);
    if (unreadable !== undefined && unreadable.failure !== message) return;
    const found = createFinding(target.place, node.path, service, message, hint);
    const identity = JSON.stringify([service, found.key, found.file, found.line, message]);
    if (this.#identities.has(identity)) return;
    this.#identities.add(identity);
    const unset = this.#unset.get(JSON.stringify([service, found.key]));
    if (unset === undefined) this.#findings.push({ level, ...found });
    else if (level === "failed") {
      const [reason] = unset.message.split(",");
      const failure = { ...unset, level, message: `${message}: ${reason}` };
      this.#findings.splice(this.#findings.indexOf(unset), 1, failure);
    } else if (level !== "lost") this.#findings.push({ level, ...found });
  }

  /** Reports the variables of a value that are not set. */
  addUnsetVariables(service: string | undefined, scalar: Scalar): void {
    const { unsetVariables: names = [], place, path } = scalar;
    if (names.length === 0) return;
    const message =
      names.length === 1
        ? `the variable ${names[0]} is not set, and is replaced by nothing`
        : `the variables ${names.join(" ")} are not set, and are replaced by nothing`;
    const found = createFinding(place, path, service, message, UNSET_HINT);
    const finding: ImportFinding = { level: "lost", ...found };
    this.#findings.push(finding);
    this.#unset.set(JSON.stringify([service, path]), finding);
  }

  /** Adds a finding that concerns the whole service, with the location `place`. */
  addForService(
    level: FindingLevel,
    service: string,
    { place, path }: Pick<ComposeNode, "place" | "path">,
    message: string,
    hint?: string,
  ): void {
    this.addWithoutHandling(level, service, emptyMapping(place, path), message, hint);
  }

  addProblems(problems: readonly ImportFinding[]): void {
    this.#findings.push(...problems);
  }

  /** Marks a value, and all values below it, as converted or reported. */
  markHandled(node: ComposeNode | undefined): void {
    if (!node) return;
    this.#handled.add(node);
    for (const child of listChildren(node)) this.markHandled(child);
  }

  /**
   * Returns the values of the tree that were not handled. A mapping or a list is returned as a whole if none of its
   * values was handled.
   */
  findUnhandled(node: ComposeNode): ComposeNode[] {
    if (this.#handled.has(node)) {
      return listChildren(node).flatMap((child) => this.findUnhandled(child));
    }
    const children = listChildren(node);
    const left = children.flatMap((child) => this.findUnhandled(child));
    const unhandled = new Set(left);
    return children.every((child) => unhandled.has(child)) ? [node] : left;
  }
}

function findUnreadable(node: ComposeNode) {
  return collectScalars(node).find(({ failure }) => failure !== undefined);
}
