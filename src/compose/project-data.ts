import { resolve } from "node:path";
import { toDnsLabel } from "./assign-app-names.ts";
import { type ComposeNode, listEntries, type Mapping } from "./compose-tree.ts";
import { listMounts } from "./mount.ts";

/** A file whose content is in a `volumes` entry of the Compose file, as Coolify writes it. */
export interface ProvidedFile {
  /** The path that the file would have in the project. */
  readonly path: string;
  readonly content: string;
}

/**
 * The volumes, relative folders and provided files of a project: which services use each one, and the name that it has
 * in the stack. Names depend only on the project, so that a repeated import gives the same ones.
 */
export class ProjectData {
  readonly files: readonly ProvidedFile[];
  readonly #volumeUsers = new Map<string, Set<string>>();
  readonly #folderUsers = new Map<string, Set<string>>();
  readonly #volumeNames: ReadonlyMap<string, string>;
  readonly #folderNames: ReadonlyMap<string, string>;

  constructor(
    folder: string,
    volumes: Mapping,
    services: readonly { readonly service: string; readonly body: ComposeNode }[],
  ) {
    const files: ProvidedFile[] = [];
    for (const { service, body } of services)
      for (const { type, source, content, node } of listMounts(body)) {
        if (source === undefined) continue;
        if (type === "volume") addUser(this.#volumeUsers, source, service);
        if (type !== "bind" || !isRelative(source)) continue;
        const path = resolve(node.place.source.folder, source);
        if (content === undefined) addUser(this.#folderUsers, path, service);
        else files.push({ path, content });
      }
    this.files = files;
    const declared = listEntries(volumes).map(({ key }) => key);
    this.#volumeNames = nameAll([...declared, ...this.#volumeUsers.keys()], (key) => key);
    this.#folderNames = nameAll([...this.#folderUsers.keys()], (path) =>
      path.startsWith(`${folder}/`) ? path.slice(folder.length + 1) : "",
    );
  }

  /** Returns the services that mount a named volume. */
  getVolumeUsers(volume: string): readonly string[] {
    return [...(this.#volumeUsers.get(volume) ?? [])];
  }

  /** Returns the services that mount a folder of the project by a relative path. */
  getFolderUsers(path: string): readonly string[] {
    return [...(this.#folderUsers.get(path) ?? [])];
  }

  /** Returns the name of a volume in the stack; undefined if none can be derived from its name in the file. */
  getVolumeName(volume: string): string | undefined {
    return this.#volumeNames.get(volume);
  }

  /** Returns the name of a folder in the stack; undefined if none can be derived from its path. */
  getFolderName(path: string): string | undefined {
    return this.#folderNames.get(path);
  }

  /** Lists the names of the volumes that several services mount. */
  listSharedVolumeNames(): readonly string[] {
    return [...this.#volumeUsers].flatMap(([volume, users]) =>
      users.size > 1 ? (this.#volumeNames.get(volume) ?? []) : [],
    );
  }

  /** Lists the folders of the project that services mount and that are above or below this one. */
  listOverlappingFolders(path: string): readonly string[] {
    return [...this.#folderUsers.keys()].filter(
      (other) => other.startsWith(`${path}/`) || path.startsWith(`${other}/`),
    );
  }
}

/** True for a path that is relative to the folder of its Compose file. */
export function isRelative(source: string): boolean {
  return source !== "" && !/^([/~]|[A-Za-z]:[\\/])/.test(source);
}

function addUser(users: Map<string, Set<string>>, place: string, service: string): void {
  users.set(place, (users.get(place) ?? new Set()).add(service));
}

function nameAll(
  places: readonly string[],
  toText: (place: string) => string,
): ReadonlyMap<string, string> {
  const names = new Map<string, string>();
  for (const place of places) {
    const name = names.has(place) ? undefined : toDnsLabel(toText(place), [...names.values()]);
    if (name !== undefined) names.set(place, name);
  }
  return names;
}
