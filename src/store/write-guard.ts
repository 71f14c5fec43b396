import { isChatTemplateText } from "../base/chat-template-text.ts";
import type { Kind } from "../resources/kinds.ts";
import { isLoopback, parseModelSource } from "../resources/model-source.ts";
import {
  listPrivilegedFields,
  type PrivilegedField,
  PrivilegeError,
  type UncheckedField,
} from "../resources/privileged-fields.ts";
import { isKind, type Resource } from "../resources/resource.ts";
import { listAllReferencedSecrets } from "../resources/secret-names.ts";
import { isFileManager } from "./field-managers.ts";
import type { HostPaths } from "./host-paths.ts";
import { RestrictedApps, type RestrictedAppsOptions } from "./restricted-apps.ts";
import type { Actor, DeleteIntent, FieldChange } from "./store.ts";
import { assertFieldsChecked, isProtectedField } from "./unchecked-fields.ts";

export interface WriteGuardOptions extends RestrictedAppsOptions {
  readonly hostPaths: HostPaths;
  /** The names of the templates in the catalog. */
  readonly catalogTemplates: readonly string[];
  readonly listUncheckedFields: (kind: Kind, name: string) => readonly UncheckedField[];
}

export interface GuardedWrite {
  /** The resource as it would be after the write. */
  readonly candidate: Resource;
  /** The stored resource; undefined if the write creates it. */
  readonly before: Resource | undefined;
  readonly changes: readonly FieldChange[];
  /** The fields of the candidate that no writer with the scope `admin` has set or confirmed. */
  readonly unchecked: readonly UncheckedField[];
  readonly actor: Actor;
}

/**
 * Decides what a writer may change, for every interface that writes to the store. A writer without the scope `admin`
 * may not add a field that reaches outside of an App. It also may not change what an App with such a field runs, or
 * the Secrets that this App uses. No writer may add such a field while the App has fields that only writers without
 * this scope have set. No writer may mount the data directory. Fields that a write does not change need no permission.
 */
export class WriteGuard {
  readonly #options: WriteGuardOptions;
  readonly #apps: RestrictedApps;

  constructor(options: WriteGuardOptions) {
    this.#options = options;
    this.#apps = new RestrictedApps(options);
  }

  /** Throws PrivilegeError if the writer may not make the write, or UncheckedFieldsError: see `assertFieldsChecked`. */
  assertAllowed(write: GuardedWrite): void {
    const { candidate, before } = write;
    if (isKind(candidate, "App")) {
      const stored = before && isKind(before, "App") ? before : undefined;
      this.#assertNothingProtected(candidate, stored);
      if (!isAdmin(write.actor)) this.#assertAppAllowed(candidate, stored, write);
      const { listUncheckedFields } = this.#options;
      const { unchecked } = write;
      assertFieldsChecked(candidate, stored, { apps: this.#apps, unchecked, listUncheckedFields });
      return;
    }
    if (isAdmin(write.actor)) return;
    if (isKind(candidate, "Secret")) this.#assertSecretAllowed(candidate, write);
    else if (isKind(candidate, "Model")) this.#assertModelAllowed(candidate, write);
    else if (isKind(candidate, "Template")) this.#assertTemplateAllowed(candidate, write);
  }

  /**
   * Throws PrivilegeError if the writer is not permitted to delete the resource. Spec files are exempt, because the
   * removal of a file only removes what the file declared.
   */
  assertDeletable(resource: Resource, { actor, manager }: DeleteIntent): void {
    const { name } = resource.metadata;
    if (isAdmin(actor) || isFileManager(manager)) return;
    if (isKind(resource, "Secret")) {
      this.#assertSecretsFree({ secrets: [name], act: "change", pointer: "/metadata/name", actor });
      return;
    }
    const held = isKind(resource, "App") ? this.#apps.findMount(resource) : undefined;
    if (!held) return;
    throw new PrivilegeError(
      "/metadata/name",
      `app "${name}" ${describeReach(held)}, so only the scope admin may delete it: its name, volumes and Secrets would be open to others`,
      `${howToGetAdmin(actor)}; the scope write may stop it`,
    );
  }

  /**
   * Returns why a folder must not be built now, as the end of a sentence that begins with the path; undefined if it may
   * be built.
   */
  findSourceProblem(folder: string): string | undefined {
    return this.#options.hostPaths.findProtected(folder);
  }

  /**
   * Returns the reason why a container that is about to start must not mount the path; undefined if it may. The reason
   * completes a sentence that begins with the path.
   */
  findMountProblem(path: string): string | undefined {
    const { hostPaths } = this.#options;
    const found = hostPaths.findProtected(path);
    if (found !== undefined || !hostPaths.isConfined(path)) return found;
    return hostPaths.findEscape(path, this.#apps.listWritablePaths());
  }

  #assertNothingProtected(candidate: Resource<"App">, before: Resource<"App"> | undefined): void {
    const kept = listPrivilegedFields(before?.spec ?? {});
    for (const field of listPrivilegedFields(candidate.spec)) {
      const { type, path, pointer } = field;
      const problem = this.#options.hostPaths.findProtected(path);
      if (problem === undefined || kept.some((other) => isSameField(other, field))) continue;
      throw new PrivilegeError(
        pointer,
        `${path} ${problem}, which no app may ${type === "hostPath" ? "mount" : "build"}`,
        type === "hostPath"
          ? "mount a folder that is outside of that folder and does not contain it, or use a named volume (name in place of hostPath)"
          : "name a folder that is outside of that folder and does not contain it",
      );
    }
  }

  #assertAppAllowed(
    candidate: Resource<"App">,
    before: Resource<"App"> | undefined,
    { changes, actor }: GuardedWrite,
  ): void {
    const { name } = candidate.metadata;
    const held = before && this.#apps.findMount(before);
    const changed = changes.find(({ path }) => isProtectedField(path));
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
      if (kept.some((other) => isSameField(other, field))) continue;
      if (field.type === "localSource") refuseLocalSource(field, actor);
      else this.#assertHostPathAllowed(field, actor);
    }
    // The checks below apply only if the write changes what the App runs, because the writer could then also read the
    // Secrets that the App already uses.
    if (changed === undefined) return;
    this.#assertHostsFree(candidate, before, actor);
    const secrets = listAllReferencedSecrets(candidate.spec);
    this.#assertSecretsFree({ secrets, act: "use", pointer: changed.path, actor, except: name });
  }

  /**
   * Throws PrivilegeError if the App would serve a part of a host name that belongs to another App with mounted folders
   * of the machine. The App would then see the passwords and cookies of the other App's visitors, and could take over
   * their logins.
   */
  #assertHostsFree(
    { metadata: { name }, spec }: Resource<"App">,
    before: Resource<"App"> | undefined,
    actor: Actor,
  ): void {
    for (const claim of this.#apps.listAddedClaims(name, spec, before)) {
      for (const other of this.#apps.listHolders(name, [claim])) {
        const held = this.#apps.findMount(other);
        if (!held) continue;
        throw new PrivilegeError(
          "/spec/domain",
          `${claim.domain} is a host of app "${other.metadata.name}", which ${describeReach(held)}, so only the scope admin may give a part of it to another app`,
          `choose another domain, or ${howToGetAdmin(actor)}`,
        );
      }
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
    const problem = hostPaths.findEscape(path, this.#apps.listWritablePaths());
    if (problem === undefined) return;
    throw new PrivilegeError(
      pointer,
      `${path} ${problem}, so mounting it needs the scope admin`,
      `${admin}; or mount a folder that host_path_allow lists itself; or ${instead}`,
    );
  }

  #assertSecretAllowed({ metadata }: Resource<"Secret">, { before, changes, actor }: GuardedWrite) {
    if (before && !changes.some(({ path }) => path.startsWith("/spec/"))) return;
    const secrets = [metadata.name];
    this.#assertSecretsFree({ secrets, act: "change", pointer: "/spec/data", actor });
  }

  /**
   * Refuses to use or change the Secrets of another App that mounts a folder of the machine, because such a Secret may
   * give the writer access to that App. `except` is the App that the writer may change.
   */
  #assertSecretsFree(write: {
    readonly secrets: readonly string[];
    readonly act: "use" | "change";
    readonly pointer: string;
    readonly actor: Actor;
    readonly except?: string;
  }): void {
    const held = this.#apps.findSecretHolder(write.secrets, write.except);
    if (!held) return;
    throw new PrivilegeError(
      write.pointer,
      `secret "${held.secret}" belongs to app "${held.app}", which ${describeReach(held.mount)}, so only the scope admin may ${write.act} it`,
      `${howToGetAdmin(write.actor)}; or use a Secret of another name`,
    );
  }

  #assertModelAllowed({ spec }: Resource<"Model">, { before, changes, actor }: GuardedWrite): void {
    const isChanged = (field: string) =>
      before === undefined || changes.some(({ path }) => path === `/spec/${field}`);
    if (spec.credential !== undefined && (isChanged("credential") || isChanged("source"))) {
      const secrets = [spec.credential];
      this.#assertSecretsFree({ secrets, act: "use", pointer: "/spec/credential", actor });
    }
    const { chatTemplate } = spec;
    if (
      chatTemplate !== undefined &&
      isChanged("chatTemplate") &&
      !isChatTemplateText(chatTemplate)
    )
      throw new PrivilegeError(
        "/spec/chatTemplate",
        "naming a file of the machine needs the scope admin, since a model repeats its template when asked",
        `write the text of the template, or ${howToGetAdmin(actor)}`,
      );
    if (!isChanged("source")) return;
    const parsed = parseModelSource(spec.source);
    if ("problem" in parsed) return;
    if (parsed.source.type === "url" && isLoopback(parsed.source.url)) {
      throw new PrivilegeError(
        "/spec/source",
        "requesting a URL of the machine itself needs the scope admin, since its answer shows what listens there",
        `name a URL of another machine, or ${howToGetAdmin(actor)}`,
      );
    }
    if (parsed.source.type !== "local") return;
    throw new PrivilegeError(
      "/spec/source",
      "naming a file of the machine needs the scope admin",
      `name a repository or a URL, or ${howToGetAdmin(actor)}`,
    );
  }

  /**
   * Refuses fields in a Template that its author may not write in an App, because a user with more rights may use the
   * template.
   */
  #assertTemplateAllowed(
    candidate: Resource<"Template">,
    { before, changes, actor }: GuardedWrite,
  ) {
    const fields = listTemplateFields(candidate);
    const held = before && isKind(before, "Template") ? listTemplateFields(before) : [];
    const [field] = fields.length > 0 ? fields : held;
    const { name } = candidate.metadata;
    const isChanged = before === undefined || changes.some(({ path }) => path.startsWith("/spec/"));
    if (isChanged && this.#options.catalogTemplates.includes(name)) {
      throw new PrivilegeError(
        "/metadata/name",
        `replacing the template "${name}" of the catalog needs the scope admin`,
        `choose another name, or ${howToGetAdmin(actor)}`,
      );
    }
    if (!field || !isChanged) return;
    throw new PrivilegeError(
      field.pointer,
      "a template whose apps reach outside of their containers needs the scope admin",
      howToGetAdmin(actor),
    );
  }
}

function refuseLocalSource({ pointer }: PrivilegedField, actor: Actor): never {
  throw new PrivilegeError(
    pointer,
    "building a folder of the machine needs the scope admin",
    `upload the folder with \`berth deploy DIR\`, or ${howToGetAdmin(actor)}`,
  );
}

function isSameField(a: PrivilegedField, b: PrivilegedField): boolean {
  return a.type === b.type && a.path === b.path;
}

function isAdmin({ scope }: Actor): boolean {
  return scope === "admin";
}

function howToGetAdmin({ adminHint }: Actor): string {
  return adminHint ?? "use a token of the scope admin";
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
