import { join } from "node:path";
import { hashJson } from "../../../base/canonical-json.ts";
import type { Clock } from "../../../base/clock.ts";
import type { AppManifest } from "../tool-manifest.ts";
import { getFileStem, listManifests, readFileStamp, readManifestFile } from "./manifest-file.ts";
import type { ParsedManifest } from "./parse-manifest.ts";

/**
 * Time for which the last valid text of a manifest stays in use after its file was deleted or is not JSON, because
 * an editor or an installer may be writing it. Complete JSON with faults applies at once.
 */
const HOLD_LAST_GOOD_MS = 1000;
const CONCURRENT_READS = 16;

/** The state of one manifest file after a scan. */
export interface ManifestFileState {
  readonly name: string;
  /** The file name without its extension. It names the app, whether the manifest is valid or rejected. */
  readonly stem: string;
  readonly parsed: ParsedManifest;
  /**
   * The manifest that the companion uses. While the current text is incomplete or the file is being replaced, it comes
   * from the last valid text; undefined if no valid text is in use.
   */
  readonly manifest: AppManifest | undefined;
  /** Digest of the manifest's content; equal contents have equal signatures. */
  readonly signature: string;
  readonly stamp: string;
  /** Epoch milliseconds until which the last valid text stays in use; undefined if the current text is in use. */
  readonly heldUntil: number | undefined;
}

/** The manifests of one folder. Each scan compares all files with the last scan. */
export class ManifestFolder {
  readonly directory: string;
  readonly #userId: number;
  readonly #clock: Clock;
  #files: ReadonlyMap<string, ManifestFileState> = new Map();
  #problem: string | undefined;

  constructor(parts: { directory: string; userId: number; clock: Clock }) {
    this.directory = parts.directory;
    this.#userId = parts.userId;
    this.#clock = parts.clock;
  }

  get files(): ReadonlyMap<string, ManifestFileState> {
    return this.#files;
  }

  /** The reason why the folder cannot be read completely. */
  get problem(): string | undefined {
    return this.#problem;
  }

  /** Epoch milliseconds at which a new scan is due even without changes. */
  get recheckAt(): number | undefined {
    const times = [...this.#files.values()].flatMap(({ heldUntil }) => heldUntil ?? []);
    return times.length === 0 ? undefined : Math.min(...times);
  }

  /** Scans the folder. Files in `suspects` are read again even if their stamps are unchanged. Never rejects. */
  async scan(suspects: ReadonlySet<string>): Promise<void> {
    const { names, problem } = await listManifests(this.directory);
    this.#problem = problem;
    const next = new Map<string, ManifestFileState>();
    const queue = [...names];
    const worker = async (): Promise<void> => {
      for (let name = queue.pop(); name !== undefined; name = queue.pop()) {
        const state = await this.#readFile(name, suspects.has(name));
        if (state) next.set(name, state);
      }
    };
    await Promise.all(Array.from({ length: CONCURRENT_READS }, worker));
    for (const [name, known] of this.#files) {
      if (next.has(name) || !known.manifest) continue;
      const held = this.#hold(known, { ...known, stamp: "gone" });
      if (held) next.set(name, held);
    }
    this.#files = new Map([...next].toSorted(([a], [b]) => (a < b ? -1 : 1)));
  }

  async #readFile(name: string, isSuspect: boolean): Promise<ManifestFileState | undefined> {
    const path = join(this.directory, name);
    const known = this.#files.get(name);
    const stamp = await readFileStamp(path);
    if (stamp === undefined) return undefined;
    if (known?.stamp === stamp && !isSuspect) {
      const isOver = known.heldUntil !== undefined && known.heldUntil <= this.#clock.now();
      return isOver
        ? { ...known, manifest: undefined, signature: "", heldUntil: undefined }
        : known;
    }
    const file = await readManifestFile(path, getFileStem(name), this.#userId);
    if (!file) return undefined;
    const { parsed } = file;
    const { manifest } = parsed;
    const signature = manifest ? computeManifestSignature(manifest) : "";
    const fresh = { name, stem: getFileStem(name), parsed, manifest, signature, stamp };
    const held =
      parsed.isIncomplete && known?.manifest ? this.#hold(known, { ...fresh }) : undefined;
    return held ?? { ...fresh, heldUntil: undefined };
  }

  /**
   * Returns `next`, the new state of the file, with the last valid manifest from `known`. Returns undefined if that
   * manifest may no longer stay in use.
   */
  #hold(
    known: ManifestFileState,
    next: Omit<ManifestFileState, "heldUntil">,
  ): ManifestFileState | undefined {
    const heldUntil = known.heldUntil ?? this.#clock.now() + HOLD_LAST_GOOD_MS;
    if (heldUntil <= this.#clock.now()) return undefined;
    return { ...next, manifest: known.manifest, signature: known.signature, heldUntil };
  }
}

export function computeManifestSignature(manifest: AppManifest): string {
  const { tools, ...rest } = manifest;
  return hashJson({ ...rest, tools: tools.map(({ digest }) => digest) });
}
