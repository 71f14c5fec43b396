import { dirname, join, resolve } from "node:path";
import { readEnvFile } from "./env-file.ts";
import { resolveExtends } from "./extends.ts";
import { type Finding, problemAt } from "./findings.ts";
import { interpolateScalar, type Variables } from "./interpolate.ts";
import { mergeMappings, mergeServices } from "./merge.ts";
import { readComposeText } from "./read-tree.ts";
import {
  type ComposeNode,
  copyTree,
  type Entry,
  emptyMapping,
  entriesOf,
  isNull,
  type Mapping,
  type Place,
  type Scalar,
  type Source,
  valueAt,
} from "./tree.ts";

export type FileText = { readonly text: string } | { readonly problem: string };

/** How files are reached: paths are absolute. What is too large or not text is a problem, too. */
export interface ComposeFiles {
  read(path: string): FileText;
  /** A path as a person names it. */
  show(path: string): string;
}

/** The sections of a project, all files of it laid over each other. */
export interface Project {
  readonly folder: string;
  readonly name: Scalar | undefined;
  readonly services: Mapping;
  readonly volumes: Mapping;
  readonly networks: Mapping;
  readonly secrets: Mapping;
  readonly configs: Mapping;
  /** Top-level keys that are none of these. */
  readonly others: readonly Entry[];
  readonly variables: Variables;
  /** Services of which a part is missing. */
  readonly failed: ReadonlySet<string>;
  readonly problems: readonly Finding[];
}

export interface LoadOptions {
  /** Laid over each other in this order; the project's folder is that of the first. */
  readonly files: readonly string[];
  /** In place of the `.env` beside the first file. */
  readonly envFiles?: readonly string[] | undefined;
  /** Goes before the env files. */
  readonly environment?: Variables | undefined;
}

const sections = ["services", "volumes", "networks", "secrets", "configs"] as const;
type Section = (typeof sections)[number];
/** As many as one project could sensibly have; includes of includes reach it. */
const FILES_MAX = 100;
const DEPTH_MAX = 10;

/** Reads a project and everything that it includes and extends. Never throws. */
export function loadProject(options: LoadOptions, files: ComposeFiles): Project {
  return new Loader(files).project(options, options.environment ?? new Map(), []);
}

class Loader {
  readonly #files: ComposeFiles;
  readonly #problems: Finding[] = [];
  readonly #failed = new Set<string>();
  #opened = 0;

  constructor(files: ComposeFiles) {
    this.#files = files;
  }

  project(
    options: LoadOptions,
    above: Variables,
    trail: readonly string[],
    from?: { readonly place: Place; readonly folder: string | undefined },
  ): Project {
    const [first = "."] = options.files;
    const folder = from?.folder ?? dirname(first);
    const variables = this.#variables(options.envFiles ?? [], folder, above, !options.envFiles);
    const parts: Record<Section, Mapping> = {
      services: emptyMapping(placeOf(this.#files, first, folder), "services"),
      volumes: emptyMapping(placeOf(this.#files, first, folder), "volumes"),
      networks: emptyMapping(placeOf(this.#files, first, folder), "networks"),
      secrets: emptyMapping(placeOf(this.#files, first, folder), "secrets"),
      configs: emptyMapping(placeOf(this.#files, first, folder), "configs"),
    };
    const others: Entry[] = [];
    let name: Scalar | undefined;
    for (const path of options.files) {
      const root = this.#open(path, folder, from);
      if (!root) continue;
      const filled = fillIn(root, variables);
      for (const included of this.#included(valueAt(filled, "include"), variables, [
        ...trail,
        ...options.files,
      ])) {
        for (const section of sections) this.#addIncluded(parts, section, included[section]);
      }
      const written = valueAt(filled, "name");
      if (written?.kind === "scalar") name = written;
      for (const entry of entriesOf(filled)) {
        const section = sections.find((candidate) => candidate === entry.key);
        if (!section) {
          if (!["include", "name"].includes(entry.key)) others.push(entry);
          continue;
        }
        if (entry.value.kind !== "map") {
          if (!isNull(entry.value)) {
            this.#problem(entry.place, `${entry.key} has to be a mapping of names`);
          }
          continue;
        }
        parts[section] =
          section === "services"
            ? this.#addServices(parts.services, entry.value, variables)
            : mergeMappings(parts[section], entry.value, section);
      }
    }
    return {
      folder,
      name,
      ...parts,
      others,
      variables,
      failed: this.#failed,
      problems: this.#problems,
    };
  }

  #addServices(before: Mapping, added: Mapping, variables: Variables): Mapping {
    const among = { ...added, entries: new Map([...before.entries, ...added.entries]) };
    const extended = resolveExtends(among, (file) => this.#servicesOf(file, variables));
    this.#problems.push(...extended.problems);
    for (const name of extended.failed) this.#failed.add(name);
    const entries = new Map(before.entries);
    for (const name of added.entries.keys()) {
      const entry = extended.services.entries.get(name);
      const earlier = before.entries.get(name);
      if (!entry) continue;
      const value =
        earlier?.value.kind === "map" && entry.value.kind === "map"
          ? mergeServices(earlier.value, entry.value)
          : entry.value;
      entries.set(name, { ...entry, value });
    }
    return { ...before, entries };
  }

  /** The services of the file that an `extends` names; its relative paths start beside it. */
  #servicesOf(file: Scalar, variables: Variables): Mapping | undefined {
    const path = resolve(file.place.source.folder, file.text);
    const root = this.#open(path, dirname(path), file);
    const services = root ? valueAt(fillIn(root, variables), "services") : undefined;
    return services?.kind === "map" ? services : undefined;
  }

  #included(
    include: ComposeNode | undefined,
    variables: Variables,
    trail: readonly string[],
  ): Project[] {
    if (!include) return [];
    const projects: Project[] = [];
    for (const item of include.kind === "list" ? include.items : [include]) {
      const path = item.kind === "map" ? valueAt(item, "path") : item;
      const texts = scalarsOf(path);
      const files = texts.map((text) => resolve(text.place.source.folder, text.text));
      const remote = texts.find(({ text }) => /^(oci|https?|git|ssh):\/\/|^git@/.test(text));
      if (files.length === 0) this.#problem(item.place, "include names no file");
      else if (remote) {
        this.#problem(
          remote.place,
          "files of other machines are not included",
          "download it, and include the local file",
        );
      } else if (files.some((file) => trail.includes(file))) {
        this.#problem(item.place, "include goes in a circle");
      } else if (trail.length > DEPTH_MAX) {
        this.#problem(item.place, `include is more than ${DEPTH_MAX} files deep`);
      } else {
        const [folder] = scalarsOf(valueAt(item, "project_directory"));
        const envFiles = scalarsOf(valueAt(item, "env_file"));
        projects.push(
          this.project(
            {
              files,
              envFiles:
                envFiles.length === 0
                  ? undefined
                  : envFiles.map((file) => resolve(file.place.source.folder, file.text)),
            },
            variables,
            trail,
            {
              place: item.place,
              folder: folder && resolve(folder.place.source.folder, folder.text),
            },
          ),
        );
      }
    }
    return projects;
  }

  #addIncluded(parts: Record<Section, Mapping>, section: Section, included: Mapping): void {
    const entries = new Map(parts[section].entries);
    for (const entry of included.entries.values()) {
      const earlier = entries.get(entry.key);
      if (earlier && section === "services") {
        this.#problem(
          entry.place,
          `the service "${entry.key}" is declared already in ${earlier.place.source.file}:${earlier.place.line}`,
        );
      }
      entries.set(entry.key, entry);
    }
    parts[section] = { ...parts[section], entries };
  }

  #open(path: string, folder: string, from?: { readonly place: Place }): Mapping | undefined {
    const source: Source = { file: this.#files.show(path), folder };
    const place = from?.place ?? { source, line: 1, column: 1 };
    this.#opened += 1;
    if (this.#opened > FILES_MAX) {
      this.#problem(place, `more than ${FILES_MAX} files belong to this project`);
      return undefined;
    }
    const content = this.#files.read(path);
    if ("problem" in content) {
      this.#problem(place, `cannot read ${source.file}: ${content.problem}`);
      return undefined;
    }
    const read = readComposeText(content.text, source);
    this.#problems.push(...read.problems);
    return read.root;
  }

  /** What `${NAME}` may name: what is set above goes first, then the env files, the last one first. */
  #variables(
    paths: readonly string[],
    folder: string,
    above: Variables,
    standard: boolean,
  ): Variables {
    const variables = new Map<string, string>();
    for (const path of standard ? [join(folder, ".env")] : paths) {
      const content = this.#files.read(path);
      const source: Source = { file: this.#files.show(path), folder };
      if ("problem" in content) {
        if (!standard)
          this.#problem({ source, line: 1, column: 1 }, `cannot read it: ${content.problem}`);
        continue;
      }
      const file = readEnvFile(content.text, new Map([...variables, ...above]));
      for (const { key, value } of file.entries) if (value !== undefined) variables.set(key, value);
      for (const { line, message } of file.problems) {
        const found = problemAt({ source, line, column: 1 }, message);
        this.#problems.push({ ...found, level: "lost" });
      }
    }
    return new Map([...variables, ...above]);
  }

  #problem(place: Place, message: string, hint?: string): void {
    this.#problems.push(problemAt(place, message, hint));
  }
}

/** Extension fields stay as they are: what is used of them has come in through aliases. */
function fillIn(root: Mapping, variables: Variables): Mapping {
  const entries = [...root.entries].map(([key, entry]) => {
    const value = key.startsWith("x-")
      ? entry.value
      : copyTree(entry.value, entry.value.path, (scalar) => interpolateScalar(scalar, variables));
    return [key, { ...entry, value }] as const;
  });
  return { ...root, entries: new Map(entries) };
}

function scalarsOf(node: ComposeNode | undefined): Scalar[] {
  const nodes = node?.kind === "list" ? node.items : node ? [node] : [];
  return nodes.flatMap((item) => (item.kind === "scalar" && item.text !== "" ? [item] : []));
}

function placeOf(files: ComposeFiles, path: string, folder: string): Place {
  return { source: { file: files.show(path), folder }, line: 1, column: 1 };
}
