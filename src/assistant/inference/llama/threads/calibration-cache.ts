import { createHash, randomUUID } from "node:crypto";
import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { cpus } from "node:os";
import { join } from "node:path";
import type { Clock } from "../../../../base/clock.ts";
import { LazyValidator } from "../../../../base/json-validator.ts";
import type { BatchCosts } from "../batch-plan.ts";
import type { Calibration } from "./thread-governor.ts";

/** All that is measured at the first load of a model. */
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

/** How long a measurement beside other work is better than another one, which takes a second, in milliseconds. */
const UNSTEADY_TTL_MS = 60 * 60_000;

/**
 * What was measured, by model, processor and number of cores, in a folder of small files; and what was measured
 * while the machine had other work, in memory, for an hour.
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

  /** Undefined where there is none that can be used. */
  async read(modelDigest: string): Promise<Measurements | undefined> {
    return (await this.#readFile(modelDigest)) ?? this.#readTemporary(modelDigest);
  }

  /** Of a machine that was busy: good for a while, and then measured again. */
  keepTemporarily(modelDigest: string, measured: Measurements): void {
    this.#unsteady.set(modelDigest, {
      measured,
      until: this.#clock.now() + UNSTEADY_TTL_MS,
    });
  }

  #readTemporary(modelDigest: string): Measurements | undefined {
    const noted = this.#unsteady.get(modelDigest);
    if (noted && noted.until > this.#clock.now()) return noted.measured;
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

  /** Rejects where the folder cannot be written, which costs a second at the next load and nothing else. */
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
