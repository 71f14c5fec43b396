import { imageOrigin } from "../labels.ts";
import type { OwnImage } from "../runtime/port.ts";
import type { KeptArchive } from "./archive-store.ts";
import type { Protected } from "./protected.ts";
import { imageRepository } from "./source-key.ts";

/** An archive has no App until the request that brought it has been written: a moment, or a person's pause. */
const ARCHIVE_GRACE_MS = 60 * 60_000;

export interface CollectionInput {
  readonly instance: string;
  readonly images: readonly OwnImage[];
  readonly archives: readonly KeptArchive[];
  readonly guarded: Protected;
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
  readonly madeAtMs: number;
  /** Of its build; engines tell times in seconds, and two builds may be of one. */
  readonly build: number;
  /** Its tags, all given by this instance; at least one. */
  readonly references: readonly string[];
}

export interface Collection {
  readonly images: readonly BuiltImage[];
  readonly archives: readonly KeptArchive[];
}

/**
 * Which built images and uploaded archives go. Pure. Archives that nothing names, and of each App the
 * images beyond the newest `keep`; then, while all together is over `bytesMax`, the oldest images.
 * Never what is guarded.
 */
export function planCollection(input: CollectionInput): Collection {
  const { guarded } = input;
  const archives = input.archives.filter(
    ({ digest, storedAtMs }) =>
      !guarded.archives.has(digest) && input.nowMs - storedAtMs > ARCHIVE_GRACE_MS,
  );
  const built = builtImages(input.instance, input.images);
  const isGuarded = ({ id, references }: BuiltImage) =>
    [id, ...references].some((it) => guarded.images.has(it));
  const going = new Set<BuiltImage>();
  const kept = new Map<string, number>();
  let bytes = sumOf(input.archives) - sumOf(archives) + sumOf(built.filter(isGuarded));
  for (const image of built.toSorted(newestFirst)) {
    const place = (kept.get(image.app) ?? 0) + 1;
    kept.set(image.app, place);
    if (isGuarded(image)) continue;
    // Once over the budget, everything that is older goes, also what would just fit.
    if (place <= input.keep) bytes += image.bytes;
    if (place > input.keep || bytes > input.bytesMax) going.add(image);
  }
  return { images: built.filter((image) => going.has(image)), archives };
}

/** What this instance built, of all that it is shown: by its labels, and under the names that it gives. */
export function builtImages(instance: string, images: readonly OwnImage[]): BuiltImage[] {
  return images.flatMap(({ id, bytes, labels, tags, createdAt }) => {
    const origin = imageOrigin(instance, labels);
    if (!origin) return [];
    const { app, build } = origin;
    const repository = `${imageRepository(instance, app)}:`;
    const references = tags.filter((tag) => tag.startsWith(repository));
    // Somebody gave it a name of their own, or made it from one of ours, whose labels it inherits.
    if (references.length === 0 || references.length < tags.length) return [];
    return [{ app, id, bytes, madeAtMs: Date.parse(createdAt), build, references }];
  });
}

function newestFirst(a: BuiltImage, b: BuiltImage): number {
  return b.madeAtMs - a.madeAtMs || b.build - a.build;
}

function sumOf(items: readonly { readonly bytes: number }[]): number {
  return items.reduce((sum, { bytes }) => sum + bytes, 0);
}
