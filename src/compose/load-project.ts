import { dirname, join, resolve } from "node:path";
import { hashJson } from "../base/canonical-json.ts";
import {
  type ComposeNode,
  copyTree,
  type Entry,
  emptyMapping,
  getValue,
  isNull,
  listEntries,
  listItems,
  listScalars,
  type Mapping,
  type Scalar,
  type SourceLocation,
} from "./compose-tree.ts";
import { parseEnvFile } from "./env-file.ts";
import { createFailedFinding, type ImportFinding } from "./import-findings.ts";
import { interpolateScalar, type Variables } from "./interpolate-variables.ts";
import { mergeMappings, mergeServices } from "./merge-services.ts";
import { parseComposeText } from "./parse-compose.ts";
import { isInProject, REACH_HINT } from "./project-folder.ts";
import { resolveExtends } from "./resolve-extends.ts";

export type FileText = { readonly text: string } | { readonly problem: string };

/** Reads the files of a project. Paths are absolute. A file that is too large or not text yields `{ problem }`. */
export interface ComposeFileReader {
  read(path: string): FileText;
  /** Lists the text files below a folder, up to a limit. For the path of a file, lists only that file. */
  list?(path: string): readonly string[];
  /**
   * Returns the path with its links resolved, as far as it exists. If a reader lacks this function, no path is
   * treated as a link.
   */
  resolveLinks?(path: string): string;
  /** True for an existing file or folder. If a reader lacks this function, only the files that it reads exist. */
  exists?(path: string): boolean;
  /** Returns the path as messages show it. */
  displayPath(path: string): string;
}

/** The sections of a project, merged from all its files. */
export interface ComposeProject {
  readonly folder: string;
  /**
   * A hash of the text of the first Compose file of the project. It names a project whose file is read from standard
   * input.
   */
  readonly digest: string;
  readonly name: Scalar | undefined;
  readonly services: Mapping;
  readonly volumes: Mapping;
  readonly networks: Mapping;
  readonly secrets: Mapping;
  readonly configs: Mapping;
  /** The other top-level keys of the Compose files, with their values. */
  readonly others: readonly Entry[];
  readonly variables: Variables;
  /** Names of services of which a part could not be read. */
  readonly failed: ReadonlySet<string>;
  readonly problems: readonly ImportFinding[];
}

export interface LoadProjectOptions {
  /** The files to merge, in this order. The project's folder is the folder of the first file. */
  readonly files: readonly string[];
  /** Env files that replace the `.env` in the folder of the first file. */
  readonly envFiles?: readonly string[] | undefined;
  /**
   * The environment variables of the berth process, which take precedence over the env files; absent if they are not
   * used.
   */
  readonly environment?: Variables | undefined;
}

const sections = ["services", "volumes", "networks", "secrets", "configs"] as const;
type Section = (typeof sections)[number];
/**
 * The maximum number of files of a project: more than a reasonable project has, and reached only by nested includes.
 */
const FILES_MAX = 100;
const DEPTH_MAX = 10;
/** The maximum total length of the values of a project after their variables are expanded, in characters. */
const CHARACTERS_MAX = 8 * 1_048_576;

/** Loads a project with all files that it includes and extends. Never throws. */
export function loadProject(options: LoadProjectOptions, files: ComposeFileReader): ComposeProject {
  const folder = dirname(options.files[0] ?? ".");
  return new ProjectLoader(files, folder).load(options, options.environment ?? new Map(), []);
}

class ProjectLoader {
  readonly #files: ComposeFileReader;
  /** The folder of the first file that the user names. Files outside of this folder are reported as unsafe. */
  readonly #folder: string;
  readonly #problems: ImportFinding[] = [];
  readonly #failed = new Set<string>();
  #openedCount = 0;
  #expandedCharacters = 0;

  constructor(files: ComposeFileReader, folder: string) {
    this.#files = files;
    this.#folder = folder;
  }

  load(
    options: LoadProjectOptions,
    outerVariables: Variables,
    ancestors: readonly string[],
    includedFrom?: { readonly place: SourceLocation; readonly folder: string | undefined },
  ): ComposeProject {
    const [first = "."] = options.files;
    const folder = includedFrom?.folder ?? dirname(first);
    const variables = this.#readVariables(
      options.envFiles ?? [],
      folder,
      outerVariables,
      !options.envFiles,
      includedFrom?.place,
    );
    const start = fileStart(this.#files, first, folder);
    const parts: Record<Section, Mapping> = {
      services: emptyMapping(start, "services"),
      volumes: emptyMapping(start, "volumes"),
      networks: emptyMapping(start, "networks"),
      secrets: emptyMapping(start, "secrets"),
      configs: emptyMapping(start, "configs"),
    };
    const others: Entry[] = [];
    let name: Scalar | undefined;
    for (const path of options.files) {
      const root = this.#parseFile(path, folder, includedFrom);
      if (!root) continue;
      const filled = this.#expand(root, variables);
      for (const included of this.#loadIncludes(getValue(filled, "include"), variables, [
        ...ancestors,
        ...options.files,
      ])) {
        for (const section of sections) this.#addIncluded(parts, section, included[section]);
      }
      const written = getValue(filled, "name");
      if (written?.kind === "scalar") name = written;
      for (const entry of listEntries(filled)) {
        const section = sections.find((candidate) => candidate === entry.key);
        if (!section) {
          if (!["include", "name"].includes(entry.key)) others.push(entry);
          continue;
        }
        if (entry.value.kind !== "map") {
          if (!isNull(entry.value)) {
            this.#addProblem(entry.place, `${entry.key} must be a mapping of names`);
          }
          continue;
        }
        parts[section] =
          section === "services"
            ? this.#addServices(parts.services, entry.value, variables)
            : mergeMappings(parts[section], entry.value, section);
      }
    }
    const content = this.#files.read(first);
    return {
      folder,
      digest: hashJson("text" in content ? content.text : "").slice(0, 12),
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
    const extended = resolveExtends(among, (file) => this.#readServices(file, variables));
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

  /** Reads the services of the file that an `extends` names. Relative paths in that file refer to its own folder. */
  #readServices(file: Scalar, variables: Variables): Mapping | undefined {
    const path = resolve(file.place.source.folder, file.text);
    const root = this.#parseFile(path, dirname(path), file);
    const services = root ? getValue(this.#expand(root, variables), "services") : undefined;
    return services?.kind === "map" ? services : undefined;
  }

  #loadIncludes(
    include: ComposeNode | undefined,
    variables: Variables,
    trail: readonly string[],
  ): ComposeProject[] {
    const projects: ComposeProject[] = [];
    for (const item of listItems(include)) {
      const path = item.kind === "map" ? getValue(item, "path") : item;
      const texts = listPaths(path);
      const files = texts.map((text) => resolve(text.place.source.folder, text.text));
      const remote = texts.find(({ text }) => /^(oci|https?|git|ssh):\/\/|^git@/.test(text));
      if (files.length === 0) this.#addProblem(item.place, "include names no file");
      else if (remote) {
        this.#addProblem(
          remote.place,
          "remote files are not included",
          "download the file, and include the local copy",
        );
      } else if (files.some((file) => trail.includes(file))) {
        this.#addProblem(item.place, "the files include each other in a circle");
      } else if (trail.length > DEPTH_MAX) {
        this.#addProblem(item.place, `includes are nested more than ${DEPTH_MAX} files deep`);
      } else {
        const [folder] = listPaths(getValue(item, "project_directory"));
        const envFiles = listPaths(getValue(item, "env_file"));
        projects.push(
          this.load(
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
        this.#addProblem(
          entry.place,
          `the service "${entry.key}" is already declared in ${earlier.place.source.file}:${earlier.place.line}`,
        );
      }
      entries.set(entry.key, entry);
    }
    parts[section] = { ...parts[section], entries };
  }

  #parseFile(
    path: string,
    folder: string,
    from?: { readonly place: SourceLocation },
  ): Mapping | undefined {
    const start = fileStart(this.#files, path, folder);
    const { source } = start;
    const place = from?.place ?? start;
    this.#openedCount += 1;
    if (this.#openedCount > FILES_MAX) {
      this.#addProblem(place, `this project has more than ${FILES_MAX} files`);
      return undefined;
    }
    const content = this.#files.read(path);
    if ("problem" in content) {
      this.#addProblem(place, `cannot read ${source.file}: ${content.problem}`);
      return undefined;
    }
    if (from) this.#checkReach(path, from.place);
    const read = parseComposeText(content.text, source);
    this.#problems.push(...read.problems);
    return read.root;
  }

  /**
   * Reads the variables of the env files. A later file overrides earlier files, and the variables in `above` override
   * those of all files. `includedFrom` is the location of the include that names the files.
   */
  #readVariables(
    paths: readonly string[],
    folder: string,
    above: Variables,
    standard: boolean,
    includedFrom: SourceLocation | undefined,
  ): Variables {
    const variables = new Map<string, string>();
    for (const path of standard ? [join(folder, ".env")] : paths) {
      const content = this.#files.read(path);
      const start = fileStart(this.#files, path, folder);
      if ("problem" in content) {
        if (!standard) this.#addProblem(start, `cannot read the file: ${content.problem}`);
        continue;
      }
      if (standard || includedFrom) this.#checkReach(path, includedFrom ?? start);
      const file = parseEnvFile(content.text, new Map([...variables, ...above]));
      for (const { key, value } of file.entries) if (value !== undefined) variables.set(key, value);
      for (const { line, message } of file.problems) {
        const found = createFailedFinding({ ...start, line }, message);
        this.#problems.push({ ...found, level: "lost" });
      }
    }
    return new Map([...variables, ...above]);
  }

  /**
   * Expands the variables in a mapping, except in extension fields (`x-...`). YAML aliases have already copied the
   * parts of extension fields that the project uses to other places.
   */
  #expand(root: Mapping, variables: Variables): Mapping {
    const entries = [...root.entries].map(([key, entry]) => {
      const value = key.startsWith("x-")
        ? entry.value
        : copyTree(entry.value, entry.value.path, (scalar) =>
            this.#expandScalar(scalar, variables),
          );
      return [key, { ...entry, value }] as const;
    });
    return { ...root, entries: new Map(entries) };
  }

  #expandScalar(scalar: Scalar, variables: Variables): Scalar {
    if (this.#expandedCharacters > CHARACTERS_MAX) {
      const failure = "the project is longer than 8 MiB after its variables are expanded";
      return { ...scalar, value: "", text: "", failure };
    }
    // Compose has no content in volumes. Coolify writes it to a file as it is.
    if (/\.volumes\[\d+\]\.content$/.test(scalar.path)) return scalar;
    const expanded = interpolateScalar(scalar, variables);
    if (expanded !== scalar) this.#expandedCharacters += expanded.text.length;
    return expanded;
  }

  /**
   * Reports a file that the user has not named and that is outside of the project's folder after links
   * are resolved.
   */
  #checkReach(path: string, place: SourceLocation): void {
    if (isInProject(this.#files, this.#folder, path)) return;
    const message = `${this.#files.displayPath(path)} is outside of the project's folder, and its values become part of the apps`;
    this.#problems.push({ ...createFailedFinding(place, message, REACH_HINT), level: "unsafe" });
  }

  #addProblem(place: SourceLocation, message: string, hint?: string): void {
    this.#problems.push(createFailedFinding(place, message, hint));
  }
}

function listPaths(node: ComposeNode | undefined): Scalar[] {
  return listScalars(node).filter(({ text }) => text !== "");
}

function fileStart(files: ComposeFileReader, path: string, folder: string): SourceLocation {
  return { source: { file: files.displayPath(path), folder }, line: 1, column: 1 };
}
