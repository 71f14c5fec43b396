import { parseImageOrigin } from "../labels.ts";
import type { BuiltImageInfo } from "../runtime/port.ts";
import type { StoredArchive } from "./archive-store.ts";
import type { ProtectedContent } from "./protected-content.ts";
import { imageRepository } from "./source-key.ts";

/** An archive has no App until the request that brought it has been written: a moment, or a person's pause. */
const ARCHIVE_GRACE_MS = 60 * 60_000;

export interface BuildCollectionInput {
  readonly instance: string;
  readonly images: readonly BuiltImageInfo[];
  readonly archives: readonly StoredArchive[];
  readonly protectedContent: ProtectedContent;
  /** Newest images kept of each App. */
  readonly keep: number;
  /** Images and archives of all Apps together. */
  readonly bytesMax: number;
  readonly nowMs: number;
}

export interface BuiltImage {
  readonly app: string;
  readonly id: string;
  readonly bytes: number;
  readonly createdAtMs: number;
  /** Of its build; engines tell times in seconds, and two builds may be of one. */
  readonly build: number;
  /** Its tags, all given by this instance; at least one. */
  readonly references: readonly string[];
}

export interface BuildCollectionPlan {
  readonly images: readonly BuiltImage[];
  readonly archives: readonly StoredArchive[];
}

/**
 * Which built images and uploaded archives go. Pure. Archives that nothing names, and of each App the
 * images beyond the newest `keep`; then, while all together is over `bytesMax`, the oldest images.
 * Never what is guarded.
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
  for (const image of built.toSorted(compareNewestFirst)) {
    const place = (kept.get(image.app) ?? 0) + 1;
    kept.set(image.app, place);
    if (isGuarded(image)) continue;
    // Once over the budget, everything that is older goes, also what would just fit.
    if (place <= input.keep) bytes += image.bytes;
    if (place > input.keep || bytes > input.bytesMax) removed.add(image);
  }
  return { images: built.filter((image) => removed.has(image)), archives };
}

/** What this instance built, of all that it is shown: by its labels, and under the names that it gives. */
export function findBuiltImages(instance: string, images: readonly BuiltImageInfo[]): BuiltImage[] {
  return images.flatMap(({ id, bytes, labels, tags, createdAt }) => {
    const origin = parseImageOrigin(instance, labels);
    if (!origin) return [];
    const { app, build } = origin;
    const repository = `${imageRepository(instance, app)}:`;
    const references = tags.filter((tag) => tag.startsWith(repository));
    // Somebody gave it a name of their own, or made it from one of ours, whose labels it inherits.
    if (references.length === 0 || references.length < tags.length) return [];
    return [{ app, id, bytes, createdAtMs: Date.parse(createdAt), build, references }];
  });
}

function compareNewestFirst(a: BuiltImage, b: BuiltImage): number {
  return b.createdAtMs - a.createdAtMs || b.build - a.build;
}

function sumBytes(items: readonly { readonly bytes: number }[]): number {
  return items.reduce((sum, { bytes }) => sum + bytes, 0);
}
