import type { AppSpec } from "../../resources/app-spec.ts";
import type { Store } from "../../store/store.ts";
import type { ObservedContainer } from "../runtime/port.ts";

/** What no budget takes away. */
export interface ProtectedContent {
  /** References and ids of images. */
  readonly images: ReadonlySet<string>;
  /** Digests of archives. */
  readonly archives: ReadonlySet<string>;
}

/**
 * Images in use by any container, those that Apps want now, and those that they would go back to;
 * archives that any spec or any kept revision names.
 */
export function findProtectedContent(
  store: Store,
  containers: readonly ObservedContainer[],
  /** The image that the source of an App comes to now; undefined while that is not known. */
  wantedImage: (app: string) => string | undefined,
): ProtectedContent {
  const images = new Set<string>();
  for (const container of containers) images.add(container.image).add(container.imageId);
  for (const app of store.list("App")) {
    const { name } = app.metadata;
    const revisions = store.revisions.list(name);
    const memory = app.status?.memory;
    const numbers = [memory?.good ?? null, memory?.quarantine?.revertedTo ?? null];
    const kept = [
      revisions.find((revision) => revision.state === "stable"),
      ...revisions.filter((revision) => numbers.includes(revision.number)),
    ];
    const wanted = wantedImage(name);
    if (wanted !== undefined) images.add(wanted);
    for (const revision of kept) if (revision?.image) images.add(revision.image);
  }
  return { images, archives: findArchivesInUse(store) };
}

/** Archives that the spec or a kept revision of an App names; `except` is one that is being deleted. */
export function findArchivesInUse(store: Store, except?: string): ReadonlySet<string> {
  const digests = new Set<string>();
  const take = ({ source }: AppSpec) => {
    if (source && "archive" in source) digests.add(source.archive);
  };
  for (const app of store.list("App")) {
    if (app.metadata.name === except) continue;
    take(app.spec);
    for (const revision of store.revisions.list(app.metadata.name)) take(revision.spec);
  }
  return digests;
}
