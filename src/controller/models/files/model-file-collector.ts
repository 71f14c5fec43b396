import type { Clock } from "../../../base/clock.ts";
import type { Logger } from "../../../base/logger.ts";
import type { Mutex } from "../../../base/mutex.ts";
import type { Blobs } from "./blobs.ts";
import { planModelFileCollection } from "./model-file-collection-plan.ts";
import type { Partials } from "./partials.ts";
import type { CollectedFile } from "./port.ts";
import type { Views } from "./views.ts";

export interface ModelFileCollectorDependencies {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly blobs: Blobs;
  readonly partials: Partials;
  readonly views: Views;
  readonly linking: Mutex;
  readonly budgetBytes: number | undefined;
  /** True while the content is being downloaded. */
  readonly isActive: (content: string) => boolean;
  /** Keys of the models that are being downloaded. */
  readonly activeKeys: () => readonly string[];
}

/** Removes files that no model uses and that are not being downloaded. */
export class ModelFileCollector {
  readonly #dependencies: ModelFileCollectorDependencies;

  constructor(dependencies: ModelFileCollectorDependencies) {
    this.#dependencies = dependencies;
  }

  remove(key: string, keep: readonly string[]): Promise<void> {
    const { blobs, linking, partials, views } = this.#dependencies;
    return linking.runExclusive(async () => {
      // Two Models with the same source have the same key, so the other Model may still need the files.
      if (keep.includes(key)) return;
      const digests = await views.listDigests(key);
      await views.remove(key);
      const kept = await this.#collectDigests(keep);
      for (const sha256 of digests) if (!this.#isKept(sha256, kept)) await blobs.remove(sha256);
      for (const { content, keys } of await partials.list()) {
        const isItsOwn = keys.includes(key) && !keys.some((other) => keep.includes(other));
        if (isItsOwn && !this.#dependencies.isActive(content)) await partials.remove(content);
      }
    });
  }

  collect(keep: readonly string[]): Promise<readonly CollectedFile[]> {
    const { blobs, budgetBytes, clock, linking, logger, partials } = this.#dependencies;
    return linking.runExclusive(async () => {
      const kept = await this.#collectDigests(keep);
      await blobs.sweep();
      for (const sha256 of kept) await blobs.touch(sha256);
      const plan = planModelFileCollection({
        budgetBytes,
        nowMs: clock.now(),
        blobs: (await blobs.list()).map(({ sha256, sizeBytes, usedMs }) => ({
          name: sha256,
          sizeBytes,
          usedMs,
          isKept: this.#isKept(sha256, kept),
        })),
        partials: (await partials.list()).map(({ content, sizeBytes, changedMs, keys }) => ({
          name: content,
          sizeBytes,
          usedMs: changedMs,
          isKept: this.#dependencies.isActive(content) || keys.some((key) => keep.includes(key)),
        })),
      });
      for (const { name } of plan.partials) await partials.remove(name);
      for (const { name } of plan.blobs) await blobs.remove(name);
      await this.#sweepViews(keep);
      if (plan.partials.length + plan.blobs.length > 0)
        logger.info(
          { files: plan.blobs.length, unfinished: plan.partials.length },
          "unused files of models were removed",
        );
      return plan.blobs.map(({ name, sizeBytes }) => ({ sha256: name, sizeBytes }));
    });
  }

  /**
   * Removes the links of a deleted model. If all files of the model are stored, keeps the links, so that the model
   * can be added again at once.
   */
  async #sweepViews(keep: readonly string[]): Promise<void> {
    const { blobs, activeKeys, views } = this.#dependencies;
    const there = new Set((await blobs.list()).map(({ sha256 }) => sha256));
    for (const key of await views.listKeys()) {
      if (keep.includes(key) || activeKeys().includes(key)) continue;
      const digests = await views.listDigests(key);
      if (![...digests].every((sha256) => there.has(sha256)) || digests.size === 0)
        await views.remove(key);
    }
  }

  #isKept(sha256: string, kept: ReadonlySet<string>): boolean {
    return kept.has(sha256) || this.#dependencies.isActive(`sha256-${sha256}`);
  }

  async #collectDigests(keys: readonly string[]): Promise<ReadonlySet<string>> {
    const all = new Set<string>();
    for (const key of [...keys, ...this.#dependencies.activeKeys()])
      for (const sha256 of await this.#dependencies.views.listDigests(key)) all.add(sha256);
    return all;
  }
}
