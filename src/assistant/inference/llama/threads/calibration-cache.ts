import { createHash, randomUUID } from "node:crypto";
import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { cpus } from "node:os";
import { join } from "node:path";
import { Ajv } from "ajv";
import type { Calibration } from "./governor.ts";

const isCalibration = new Ajv().compile<Calibration>({
  type: "object",
  required: ["decodeThreads", "prefillThreads", "decodeMs"],
  properties: {
    decodeThreads: { type: "integer", minimum: 1, maximum: 4096 },
    prefillThreads: { type: "integer", minimum: 1, maximum: 4096 },
    decodeMs: { type: "number", exclusiveMinimum: 0 },
  },
});

/** What was measured, by model, processor and number of cores, in a folder of small files. */
export class CalibrationCache {
  readonly #folder: string;
  readonly #machine: string;

  constructor(options: { readonly folder: string; readonly cores: number }) {
    this.#folder = options.folder;
    this.#machine = `${cpus()[0]?.model ?? ""} ${options.cores}`;
  }

  /** Undefined where there is none that can be used. */
  async read(modelDigest: string): Promise<Calibration | undefined> {
    try {
      const found: unknown = JSON.parse(await readFile(this.#path(modelDigest), "utf8"));
      return isCalibration(found) ? found : undefined;
    } catch {
      return undefined;
    }
  }

  /** Rejects where the folder cannot be written, which costs a second at the next load and nothing else. */
  async write(modelDigest: string, calibration: Calibration): Promise<void> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    const path = this.#path(modelDigest);
    const part = `${path}.${randomUUID()}.part`;
    try {
      await writeFile(part, JSON.stringify(calibration), { mode: 0o600 });
      await rename(part, path);
    } finally {
      await rm(part, { force: true });
    }
  }

  #path(modelDigest: string): string {
    const key = createHash("sha256").update(`1 ${modelDigest} ${this.#machine}`).digest("hex");
    return join(this.#folder, `threads-${key.slice(0, 32)}.json`);
  }
}
