import { formatPointer } from "../resources/json-pointer.ts";
import type { Kind } from "../resources/kinds.ts";
import { parseModelSource } from "../resources/model-source.ts";
import {
  lifecycleFields,
  listPrivilegedFields,
  type PrivilegedField,
  PrivilegeError,
} from "../resources/privileged-fields.ts";
import {
  DEPLOYED_AT_ANNOTATION,
  isKind,
  RESTARTED_AT_ANNOTATION,
  RETRIED_AT_ANNOTATION,
  type Resource,
} from "../resources/resource.ts";
import { listAllReferencedSecrets } from "../resources/secret-names.ts";
import { isFileManager } from "./field-managers.ts";
import type { HostPaths } from "./host-paths.ts";
import type { Actor, DeleteIntent, FieldChange, RevisionLog } from "./store.ts";

export interface WriteGuardOptions {
  readonly hostPaths: HostPaths;
  readonly listApps: () => readonly Resource<"App">[];
  readonly revisions: Pick<RevisionLog, "get" | "list">;
}

export interface GuardedWrite {
  /** The resource as the write would leave it. */
  readonly candidate: Resource;
  /** The resource as it is; undefined if the write creates it. */
  readonly before: Resource | undefined;
  readonly changes: readonly FieldChange[];
  readonly actor: Actor;
}

/**
 * Decides what a writer may change, for every way into the store. A writer without the scope `admin` adds no field that
 * reaches outside of an App, and does not change what an App with such a field runs, nor the Secrets that it uses. No one
 * mounts the data directory. What a write leaves as it is needs no permission.
 */
export class WriteGuard {
  readonly #options: WriteGuardOptions;

  constructor(options: WriteGuardOptions) {
    this.#options = options;
  }

  /** Throws PrivilegeError. */
  assertAllowed(write: GuardedWrite): void {
    const { candidate, before } = write;
    if (isKind(candidate, "App")) {
      const stored = before && isKind(before, "App") ? before : undefined;
      this.#assertNothingProtected(candidate, stored);
      if (!isAdmin(write.actor)) this.#assertAppAllowed(candidate, stored, write);
      return;
    }
    if (isAdmin(write.actor)) return;
    if (isKind(candidate, "Secret")) this.#assertSecretAllowed(candidate, write);
    else if (isKind(candidate, "Model")) this.#assertModelAllowed(candidate, write);
    else if (isKind(candidate, "Template")) this.#assertTemplateAllowed(candidate, write);
  }

  /** Throws PrivilegeError. Files are exempt, because the end of a file only takes away what the file declared. */
  assertDeletable(kind: Kind, name: string, { actor, manager }: DeleteIntent): void {
    if (kind !== "Secret" || isAdmin(actor) || isFileManager(manager)) return;
    this.#assertSecretShared(name, undefined, "/metadata/name", actor);
  }

  /**
   * Completes "PATH ..." for a path that must not be mounted now, by a container that is about to start; undefined for
   * every other path.
   */
  findMountProblem(path: string): string | undefined {
    const { hostPaths } = this.#options;
    const found = hostPaths.findProtected(path);
    if (found !== undefined || !hostPaths.isConfined(path)) return found;
    return hostPaths.findEscape(path, this.#listWritablePaths());
  }

  #assertNothingProtected(candidate: Resource<"App">, before: Resource<"App"> | undefined): void {
    const known = listHostPaths(before?.spec ?? {}).map(({ path }) => path);
    for (const { path, pointer } of listHostPaths(candidate.spec)) {
      const problem = this.#options.hostPaths.findProtected(path);
      if (problem === undefined || known.includes(path)) continue;
      throw new PrivilegeError(
        pointer,
        `${path} ${problem}, which no app may mount`,
        "mount a folder that is not around or in it, or use a named volume (name in place of hostPath)",
      );
    }
  }

  #assertAppAllowed(
    candidate: Resource<"App">,
    before: Resource<"App"> | undefined,
    { changes, actor }: GuardedWrite,
  ): void {
    const { name } = candidate.metadata;
    const held = before && this.#findRestriction(before);
    const changed = changes.find(({ path }) => isRestrictedChange(path));
    if (held && changed) {
      throw new PrivilegeError(
        changed.path,
        `app "${name}" ${describeReach(held)}, so only the scope admin may change what it runs`,
        `${howToGetAdmin(actor)}; the scope write may start, stop, restart and scale it`,
      );
    }
    if (held) return;
    const kept = before ? listPrivilegedFields(before.spec) : [];
    for (const field of listPrivilegedFields(candidate.spec)) {
      if (kept.some(({ type, path }) => type === field.type && path === field.path)) continue;
      if (field.type === "localSource") refuseLocalSource(field, actor);
      else this.#assertHostPathAllowed(field, actor);
    }
    const known = before ? listAllReferencedSecrets(before.spec) : [];
    for (const secret of listAllReferencedSecrets(candidate.spec)) {
      if (!known.includes(secret)) this.#assertSecretShared(secret, name, "/spec", actor);
    }
  }

  #assertHostPathAllowed({ pointer, path }: PrivilegedField, actor: Actor): void {
    const { hostPaths } = this.#options;
    const instead = "use a named volume (name in place of hostPath)";
    const admin = howToGetAdmin(actor);
    if (!hostPaths.isAllowed(path)) {
      throw new PrivilegeError(
        pointer,
        `mounting ${path} of the machine needs the scope admin`,
        `${admin}; or have the folder listed in host_path_allow; or ${instead}`,
      );
    }
    const problem = hostPaths.findEscape(path, this.#listWritablePaths());
    if (problem === undefined) return;
    throw new PrivilegeError(
      pointer,
      `${path} ${problem}, so mounting it needs the scope admin`,
      `${admin}; or mount a folder that host_path_allow lists itself; or ${instead}`,
    );
  }

  #assertSecretAllowed({ metadata }: Resource<"Secret">, { before, changes, actor }: GuardedWrite) {
    if (before && !changes.some(({ path }) => path.startsWith("/spec/"))) return;
    this.#assertSecretShared(metadata.name, undefined, "/spec/data", actor);
  }

  /** Refuses to read or change a Secret of another App that reaches outside: it may open that App to the writer. */
  #assertSecretShared(
    secret: string,
    app: string | undefined,
    pointer: string,
    actor: Actor,
  ): void {
    for (const other of this.#options.listApps()) {
      if (
        other.metadata.name === app ||
        !this.#listSpecs(other).some((spec) => listAllReferencedSecrets(spec).includes(secret))
      )
        continue;
      const held = this.#findRestriction(other);
      if (!held) continue;
      const verb = app === undefined ? "change" : "use";
      throw new PrivilegeError(
        pointer,
        `secret "${secret}" belongs to app "${other.metadata.name}", which ${describeReach(held)}, so only the scope admin may ${verb} it`,
        `${howToGetAdmin(actor)}; or use a Secret of another name`,
      );
    }
  }

  #assertModelAllowed({ spec }: Resource<"Model">, { before, changes, actor }: GuardedWrite): void {
    const isChanged = (field: string) =>
      before === undefined || changes.some(({ path }) => path === `/spec/${field}`);
    if (spec.credential !== undefined && (isChanged("credential") || isChanged("source")))
      this.#assertSecretShared(spec.credential, "", "/spec/credential", actor);
    if (!isChanged("source")) return;
    const parsed = parseModelSource(spec.source);
    if ("problem" in parsed || parsed.source.type !== "local") return;
    throw new PrivilegeError(
      "/spec/source",
      "naming a file of the machine needs the scope admin",
      `name a repository or a URL, or ${howToGetAdmin(actor)}`,
    );
  }

  /** Someone with more rights may use the template, so that it has to be as harmless as an App of its author. */
  #assertTemplateAllowed(
    candidate: Resource<"Template">,
    { before, changes, actor }: GuardedWrite,
  ) {
    const fields = listTemplateFields(candidate);
    const held = before && isKind(before, "Template") ? listTemplateFields(before) : [];
    const [field] = fields.length > 0 ? fields : held;
    if (!field || !changes.some(({ path }) => path.startsWith("/spec/"))) return;
    throw new PrivilegeError(
      field.pointer,
      "a template whose apps reach outside of their containers needs the scope admin",
      howToGetAdmin(actor),
    );
  }

  /** Returns the first mount of the App that the scope `write` may not make. */
  #findRestriction(app: Resource<"App">): PrivilegedField | undefined {
    const { hostPaths } = this.#options;
    return this.#listSpecs(app)
      .flatMap((spec) => listHostPaths(spec))
      .find(({ path }) => !hostPaths.isAllowed(path));
  }

  /** Lists the spec of an App, and those of the revisions that serve, or to which Berth may return without being asked. */
  #listSpecs({ metadata, spec, status }: Resource<"App">): readonly Resource<"App">["spec"][] {
    const memory = status?.memory;
    const numbers = new Set([
      ...(memory?.servedRevisions ?? []).map(({ number }) => number),
      ...(memory?.good == null ? [] : [memory.good]),
      ...(memory?.quarantine ? [memory.quarantine.revertedTo] : []),
    ]);
    const { revisions } = this.#options;
    const kept = [...numbers].flatMap((number) => revisions.get(metadata.name, number) ?? []);
    return [spec, ...kept.map((revision) => revision.spec)];
  }

  /** Lists the paths of the machine that some App writes to, or wrote to in a version whose containers may still run. */
  *#listWritablePaths(): Iterable<string> {
    for (const { metadata, spec } of this.#options.listApps()) {
      const kept = this.#options.revisions.list(metadata.name).map((revision) => revision.spec);
      for (const { volumes = [] } of [spec, ...kept]) {
        for (const volume of volumes) {
          if ("hostPath" in volume && volume.readOnly !== true) yield volume.hostPath;
        }
      }
    }
  }
}

function refuseLocalSource({ pointer }: PrivilegedField, actor: Actor): never {
  throw new PrivilegeError(
    pointer,
    "building a folder of the machine needs the scope admin",
    `upload the folder with \`berth deploy DIR\`, or ${howToGetAdmin(actor)}`,
  );
}

function isAdmin({ scope }: Actor): boolean {
  return scope === "admin";
}

function howToGetAdmin({ adminHint }: Actor): string {
  return adminHint ?? "use a token of the scope admin";
}

function listHostPaths(spec: Readonly<Record<string, unknown>>): readonly PrivilegedField[] {
  return listPrivilegedFields(spec).filter(({ type }) => type === "hostPath");
}

function listTemplateFields({ spec }: Resource<"Template">): readonly PrivilegedField[] {
  const companions = (spec.companions ?? []).flatMap(({ app }, index) =>
    listPrivilegedFields(app, ["spec", "companions", String(index), "app"]),
  );
  return [...listPrivilegedFields(spec.app, ["spec", "app"]), ...companions];
}

function describeReach({ path }: PrivilegedField): string {
  return `mounts ${path} of the machine`;
}

const harmlessAnnotations: ReadonlySet<string> = new Set(
  [DEPLOYED_AT_ANNOTATION, RESTARTED_AT_ANNOTATION, RETRIED_AT_ANNOTATION].map((name) =>
    formatPointer(["metadata", "annotations", name]),
  ),
);
const ownAnnotations = formatPointer(["metadata", "annotations", "berth.dev/"]);

/** True for a change of anything but the life cycle of an App, its labels and the annotations of other programs. */
function isRestrictedChange(path: string): boolean {
  if (path.startsWith("/spec/")) return !lifecycleFields.has(path.split("/")[2] ?? "");
  return path.startsWith(ownAnnotations) && !harmlessAnnotations.has(path);
}
