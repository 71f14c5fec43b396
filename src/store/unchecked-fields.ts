import { formatPointer } from "../resources/json-pointer.ts";
import {
  lifecycleFields,
  type UncheckedField,
  UncheckedFieldsError,
} from "../resources/privileged-fields.ts";
import {
  DEPLOYED_AT_ANNOTATION,
  ORIGIN_ANNOTATION,
  RESTARTED_AT_ANNOTATION,
  RETRIED_AT_ANNOTATION,
  type Resource,
} from "../resources/resource.ts";
import { listAllReferencedSecrets } from "../resources/secret-names.ts";
import type { AuthoredLeaves } from "./field-authors.ts";
import type { RestrictedApps } from "./restricted-apps.ts";

/**
 * The path of the annotation that names the import or the template that made an App. The annotation has no effect on
 * what the App runs.
 */
const originPath = formatPointer(["metadata", "annotations", ORIGIN_ANNOTATION]);

/** Lists the protected fields whose author did not have the scope `admin`, or is unknown. */
export function listUncheckedFields({ leaves, authors }: AuthoredLeaves): UncheckedField[] {
  return [...leaves.keys()]
    .filter(
      (path) => isProtectedField(path) && path !== originPath && authors[path]?.scope !== "admin",
    )
    .map((path) => ({ path, author: authors[path]?.name }));
}

const harmlessAnnotations: ReadonlySet<string> = new Set(
  [DEPLOYED_AT_ANNOTATION, RESTARTED_AT_ANNOTATION, RETRIED_AT_ANNOTATION].map((name) =>
    formatPointer(["metadata", "annotations", name]),
  ),
);
const ownAnnotations = formatPointer(["metadata", "annotations", "berth.dev/"]);

/**
 * Returns true for a field that determines what an App runs. Returns false for the `lifecycleFields` (such as
 * `replicas`), for labels, and for annotations of other programs.
 */
export function isProtectedField(path: string): boolean {
  if (path.startsWith("/spec/")) return !lifecycleFields.has(path.split("/")[2] ?? "");
  return path.startsWith(ownAnnotations) && !harmlessAnnotations.has(path);
}

/**
 * Protects the folders that an App mounts from unchecked fields, which only writers without the scope `admin` have set.
 * Throws UncheckedFieldsError if the written App has a mount, and one of these fields is unchecked:
 *
 * - any field of the App, if the write adds a mount;
 * - any field of a Secret of the App, if the write adds this Secret or a mount;
 * - the `domain` or `ingress` of another App that shares a host with this App, if the write adds the host or a mount.
 */
export function assertFieldsChecked(
  { metadata: { name }, spec }: Resource<"App">,
  before: Resource<"App"> | undefined,
  options: {
    readonly apps: RestrictedApps;
    /** The unchecked fields of the App, without those of its Secrets and of other Apps. */
    readonly unchecked: readonly UncheckedField[];
    readonly listUncheckedFields: (
      kind: "App" | "Secret",
      name: string,
    ) => readonly UncheckedField[];
  },
): void {
  const { apps, unchecked, listUncheckedFields: listFields } = options;
  const mounts = apps.listMounts(spec);
  const [mount] = mounts;
  if (mount === undefined) return;
  const kept = before ? apps.listMounts(before.spec).map(({ path }) => path) : [];
  const added = mounts.find(({ path }) => !kept.includes(path));
  const known = added === undefined ? before : undefined;
  const knownSecrets = known ? listAllReferencedSecrets(known.spec) : [];
  const secrets = listAllReferencedSecrets(spec).filter((secret) => !knownSecrets.includes(secret));
  const sharers = apps.listSharers(name, apps.listAddedClaims(name, spec, known));
  const fields = [
    ...(added ? unchecked : []),
    ...secrets.flatMap((secret) =>
      listFields("Secret", secret).map((field) => ({ ...field, of: `secret "${secret}"` })),
    ),
    ...sharers.flatMap(({ metadata }) =>
      listFields("App", metadata.name)
        .filter(({ path }) => /^\/spec\/(domain|ingress)(\/|$)/.test(path))
        .map((field) => ({ ...field, of: `app "${metadata.name}"` })),
    ),
  ];
  if (fields.length === 0) return;
  const { pointer, path } = added ?? mount;
  throw new UncheckedFieldsError(
    pointer,
    `app "${name}" would mount ${path} of the machine`,
    fields,
  );
}
