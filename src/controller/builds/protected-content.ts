import type { Store } from "../../store/store.ts";
import type { ObservedContainer } from "../runtime/port.ts";

/** Content that is never removed, even if a disk budget is exceeded. */
export interface ProtectedContent {
  /** The references and ids of images that are never removed. */
  readonly images: ReadonlySet<string>;
  /** The digests of uploaded source archives that are never removed. */
  readonly archives: ReadonlySet<string>;
}

/**
 * Returns the images in use by any container, the current and the rollback images of Apps, and the archives that a
 * spec or a kept revision names.
 */
export function findProtectedContent(
  store: Store,
  containers: readonly ObservedContainer[],
  /** The image of the App's current source; undefined while it is not known. */
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
  return { images, archives: store.archivesInUse() };
}
