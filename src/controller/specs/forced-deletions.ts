import type { Settings } from "../../store/store.ts";
import { formatResourceKey, type ResourceKey } from "./prune-guard.ts";

/**
 * Resources that were deleted with force although a file declares them. The deletion lasts until the text of the file
 * changes; otherwise the next scan would create the resources again. The same rule applies to fields that another
 * manager took over with force.
 */
export class ForcedDeletions {
  readonly #settings: Settings;
  readonly #entries: Map<string, ForcedDeletion>;

  constructor(settings: Settings) {
    this.#settings = settings;
    this.#entries = parseEntries(settings.get(SETTING));
  }

  has(key: ResourceKey, file: string, hash: string): boolean {
    const entry = this.#entries.get(formatResourceKey(key));
    return entry?.file === file && entry.hash === hash;
  }

  add(key: ResourceKey, file: string, hash: string): void {
    if (this.has(key, file, hash)) return;
    this.#entries.set(formatResourceKey(key), { file, hash });
    this.#write();
  }

  /** Forgets the deletions for whose file and hash `isCurrent` returns false: the file has changed or is gone. */
  keepOnly(isCurrent: (file: string, hash: string) => boolean): void {
    let changed = false;
    for (const [key, { file, hash }] of this.#entries) {
      if (isCurrent(file, hash)) continue;
      this.#entries.delete(key);
      changed = true;
    }
    if (changed) this.#write();
  }

  #write(): void {
    this.#settings.set(SETTING, JSON.stringify(Object.fromEntries(this.#entries)));
  }
}

interface ForcedDeletion {
  readonly file: string;
  /** sha256 of the text of the file at the time of the deletion. */
  readonly hash: string;
}

const SETTING = "specs.withdrawn";

function parseEntries(text: string | undefined): Map<string, ForcedDeletion> {
  const entries = new Map<string, ForcedDeletion>();
  if (text === undefined) return entries;
  const stored: unknown = JSON.parse(text);
  if (stored === null || typeof stored !== "object") return entries;
  for (const [key, value] of Object.entries(stored) as [string, unknown][]) {
    if (value === null || typeof value !== "object") continue;
    if (!("file" in value) || !("hash" in value)) continue;
    if (typeof value.file === "string" && typeof value.hash === "string") {
      entries.set(key, { file: value.file, hash: value.hash });
    }
  }
  return entries;
}
