import { createHash, randomUUID } from "node:crypto";
import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { cpus } from "node:os";
import { join } from "node:path";
import type { Clock } from "../../../../base/clock.ts";
import { LazyValidator } from "../../../../base/json-validator.ts";
import type { BatchCosts } from "../batch-plan.ts";
import type { Calibration } from "./thread-governor.ts";

/** The numbers of threads and the batch costs that were measured when a model was first loaded. */
export interface Measurements extends Calibration {
  readonly batchCosts: BatchCosts;
}

const measurementsValidator = new LazyValidator<Measurements>({
  type: "object",
  required: ["decodeThreads", "prefillThreads", "batchCosts"],
  properties: {
    decodeThreads: { type: "integer", minimum: 1, maximum: 4096 },
    prefillThreads: { type: "integer", minimum: 1, maximum: 4096 },
    decodeMs: { type: "number", exclusiveMinimum: 0 },
    batchCosts: {
      type: "array",
      maxItems: 64,
      items: {
        type: "array",
        minItems: 2,
        maxItems: 2,
        items: { type: "number", exclusiveMinimum: 0 },
      },
    },
  },
});

/**
 * Measurements from a busy machine expire after this time. They are imprecise, and repeating them takes only a second.
 */
const UNSTEADY_TTL_MS = 60 * 60_000;

/**
 * Keeps the measured thread counts and batch costs by model, processor and number of cores in a folder of small files.
 * Results that were measured on a busy machine are kept only in memory, for an hour.
 */
export class CalibrationCache {
  readonly #folder: string;
  readonly #machine: string;
  readonly #clock: Clock;
  readonly #unsteady = new Map<
    string,
    { readonly measured: Measurements; readonly until: number }
  >();

  constructor(options: {
    readonly folder: string;
    readonly cores: number;
    readonly clock: Clock;
  }) {
    this.#folder = options.folder;
    this.#machine = `${cpus()[0]?.model ?? ""} ${options.cores}`;
    this.#clock = options.clock;
  }

  /** Returns the stored measurements; undefined if there are no usable ones. */
  async read(modelDigest: string): Promise<Measurements | undefined> {
    return (await this.#readFile(modelDigest)) ?? this.#readTemporary(modelDigest);
  }

  /** Keeps the measurements of a busy machine for an hour. */
  keepTemporarily(modelDigest: string, measured: Measurements): void {
    this.#unsteady.set(modelDigest, {
      measured,
      until: this.#clock.now() + UNSTEADY_TTL_MS,
    });
  }

  #readTemporary(modelDigest: string): Measurements | undefined {
    const entry = this.#unsteady.get(modelDigest);
    if (entry && entry.until > this.#clock.now()) return entry.measured;
    this.#unsteady.delete(modelDigest);
    return undefined;
  }

  async #readFile(modelDigest: string): Promise<Measurements | undefined> {
    try {
      const found: unknown = JSON.parse(await readFile(this.#path(modelDigest), "utf8"));
      return measurementsValidator.isValid(found) ? found : undefined;
    } catch {
      return undefined;
    }
  }

  /** Rejects if the folder cannot be written; the only consequence is a new measurement at the next load. */
  async write(modelDigest: string, measured: Measurements): Promise<void> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    const path = this.#path(modelDigest);
    const part = `${path}.${randomUUID()}.part`;
    try {
      await writeFile(part, JSON.stringify(measured), { mode: 0o600 });
      await rename(part, path);
    } finally {
      await rm(part, { force: true });
    }
  }

  #path(modelDigest: string): string {
    const key = createHash("sha256").update(`2 ${modelDigest} ${this.#machine}`).digest("hex");
    return join(this.#folder, `threads-${key.slice(0, 32)}.json`);
  }
}
