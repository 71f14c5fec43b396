import { findAppOfImage } from "../engine-names.ts";
import type { BuiltImageInfo } from "../runtime/port.ts";
import type { StoredArchive } from "./archive-store.ts";
import type { ProtectedContent } from "./protected-content.ts";

/**
 * Unused archives are kept for this time. No App uses an archive until a spec names it, and a user may write that
 * spec some time after the upload.
 */
const ARCHIVE_GRACE_MS = 60 * 60_000;

export interface BuildCollectionInput {
  readonly instance: string;
  readonly images: readonly BuiltImageInfo[];
  readonly archives: readonly StoredArchive[];
  readonly protectedContent: ProtectedContent;
  /** The number of newest images to keep for each App. */
  readonly keep: number;
  /** The limit for the images and archives of all Apps together. */
  readonly bytesMax: number;
  readonly nowMs: number;
  /**
   * Returns the number of the build that made an image, if it is known. The numbers order images of the same second,
   * because engines report times in seconds only.
   */
  readonly findBuild: (reference: string) => number | undefined;
}

export interface BuiltImage {
  readonly app: string;
  readonly id: string;
  readonly bytes: number;
  readonly createdAtMs: number;
  /** The tags that this instance gave to the image; at least one. */
  readonly references: readonly string[];
}

export interface BuildCollectionPlan {
  readonly images: readonly BuiltImage[];
  readonly archives: readonly StoredArchive[];
}

/**
 * Chooses the built images and uploaded archives to remove. Pure. Removes unused archives, and the images of each
 * App beyond the newest `keep`; then, while the rest exceeds `bytesMax`, the oldest images. Protected content is
 * never removed.
 */
export function planBuildCollection(input: BuildCollectionInput): BuildCollectionPlan {
  const { protectedContent: guarded } = input;
  const archives = input.archives.filter(
    ({ digest, storedAtMs }) =>
      !guarded.archives.has(digest) && input.nowMs - storedAtMs > ARCHIVE_GRACE_MS,
  );
  const built = findBuiltImages(input.instance, input.images);
  const isGuarded = ({ id, references }: BuiltImage) =>
    [id, ...references].some((it) => guarded.images.has(it));
  const removed = new Set<BuiltImage>();
  const kept = new Map<string, number>();
  let bytes = sumBytes(input.archives) - sumBytes(archives) + sumBytes(built.filter(isGuarded));
  const buildOf = ({ references }: BuiltImage) =>
    Math.max(0, ...references.map((reference) => input.findBuild(reference) ?? 0));
  const newestFirst = built.toSorted(
    (a, b) => b.createdAtMs - a.createdAtMs || buildOf(b) - buildOf(a),
  );
  for (const image of newestFirst) {
    const place = (kept.get(image.app) ?? 0) + 1;
    kept.set(image.app, place);
    if (isGuarded(image)) continue;
    // As soon as the images exceed the budget, all older images are removed, even if one of them
    // would still fit.
    if (place <= input.keep) bytes += image.bytes;
    if (place > input.keep || bytes > input.bytesMax) removed.add(image);
  }
  return { images: built.filter((image) => removed.has(image)), archives };
}

/**
 * Returns the images that this instance built, recognised by their tags. An image that also has another tag is left
 * out, because a user has tagged it.
 */
export function findBuiltImages(instance: string, images: readonly BuiltImageInfo[]): BuiltImage[] {
  const appOf = (tag: string) => findAppOfImage(instance, tag) ?? "";
  return images.flatMap(({ id, bytes, tags, createdAt }) => {
    const apps = new Set(tags.map(appOf));
    if (apps.has("")) return [];
    // Apps with the same source and options share an image, so its tags are grouped by App. The engine removes the
    // image with its last tag.
    return [...apps].map((app) => ({
      app,
      id,
      bytes,
      createdAtMs: Date.parse(createdAt),
      references: tags.filter((tag) => appOf(tag) === app),
    }));
  });
}

function sumBytes(items: readonly { readonly bytes: number }[]): number {
  return items.reduce((sum, { bytes }) => sum + bytes, 0);
}
