import { createHash } from "node:crypto";
import { delay, timestamp } from "../../src/base/clock.ts";
import { BerthError } from "../../src/base/errors.ts";
import { findAppOfImage } from "../../src/controller/engine-names.ts";
import type {
  BuildImageOptions,
  BuildOutput,
  BuiltImageInfo,
} from "../../src/controller/runtime/port.ts";
import type { FakeEngine, FakeImage } from "./fake-engine.ts";

/**
 * The behaviour of a build. By default, the build has two steps and ends at once, and its image behaves like the
 * default FakeImage.
 */
export interface FakeImageBuild {
  /** The duration of the build in milliseconds, after the builder has read the whole build context; default 0. */
  readonly buildMs?: number;
  /** The instructions of the Dockerfile; by default a FROM and a COPY. */
  readonly steps?: readonly string[];
  /** The lines that the last step prints. */
  readonly lines?: readonly string[];
  /** The behaviour of containers of the built image. */
  readonly image?: FakeImage;
  /** The step that fails (counted from 1), its exit code, and the lines that it prints before it fails. */
  readonly fails?: {
    readonly step: number;
    readonly exitCode?: number;
    readonly lines?: readonly string[];
  };
  /** An error that the build throws before any step. */
  readonly error?: BerthError;
  /** If true, the last step never ends, unless the build is aborted. */
  readonly hangs?: boolean;
  /** If true, the connection breaks during the last step, and the engine cancels the build. */
  readonly cut?: boolean;
  readonly bytes?: number;
}

/** A build on the engine; `ended` resolves to its result. */
export interface FakeBuildRun {
  readonly options: BuildImageOptions;
  readonly contextBytes: number;
  /** The sha256 of the build context, as 64 hexadecimal digits. */
  readonly contextDigest: string;
  ended: "running" | "succeeded" | "failed" | "cancelled" | "cut";
}

interface BuiltImage {
  readonly bytes: number;
  readonly createdMs: number;
}

const DEFAULT_STEPS = ["FROM scratch", "COPY . /app"];

/**
 * The image builder of a FakeEngine. The same context, Dockerfile, target and args produce the same image, as
 * with a build cache.
 */
export class FakeImageBuilder {
  /** The behaviour of all builds, or a function that returns the behaviour of each build. */
  script: FakeImageBuild | ((run: FakeBuildRun) => FakeImageBuild) = {};
  /** All builds, oldest first. */
  readonly runs: FakeBuildRun[] = [];
  /** The free disk space in bytes that `freeBytes()` returns. */
  freeBytes: number | undefined = 100 * 2 ** 30;
  readonly #engine: FakeEngine;
  readonly #images = new Map<string, BuiltImage>();

  constructor(engine: FakeEngine) {
    this.#engine = engine;
  }

  async build(
    context: AsyncIterable<Uint8Array>,
    options: BuildImageOptions,
    onOutput: (line: BuildOutput) => void,
    signal: AbortSignal,
  ): Promise<{ imageId: string; bytes: number }> {
    const hash = createHash("sha256");
    let contextBytes = 0;
    for await (const chunk of context) {
      signal.throwIfAborted();
      hash.update(chunk);
      contextBytes += chunk.length;
    }
    const run: FakeBuildRun = {
      options,
      contextBytes,
      contextDigest: hash.digest("hex"),
      ended: "running",
    };
    this.runs.push(run);
    const build = typeof this.script === "function" ? this.script(run) : this.script;
    try {
      await this.#steps(build, onOutput, signal);
      run.ended = "succeeded";
      return this.#make(run, build);
    } catch (error) {
      run.ended = signal.aborted ? "cancelled" : build.cut ? "cut" : "failed";
      throw error;
    }
  }

  list(instance: string): BuiltImageInfo[] {
    return [...this.#images]
      .map(([id, image]) => ({
        id,
        tags: this.#tagsOf(id),
        bytes: image.bytes,
        createdAt: timestamp(image.createdMs),
      }))
      .filter(({ tags }) => tags.some((tag) => findAppOfImage(instance, tag) !== undefined));
  }

  /** Removes a tag, or the image with this id and all its tags. Returns false if the image is missing or in use. */
  remove(reference: string): boolean {
    const { localImages: held } = this.#engine;
    const isId = reference.startsWith("sha256:");
    const containers = this.#engine.containers();
    const isUsed = containers.some(
      (item) => item.spec.image === reference || (isId && item.imageId === reference),
    );
    const id = this.#engine.findImage(reference)?.id ?? (isId ? reference : undefined);
    if (isUsed || id === undefined) return false;
    const isUsedById = containers.some((item) => item.imageId === id);
    const isByDigest = !isId && !held.has(reference);
    if (isByDigest && isUsedById) return false;
    const names = isId ? this.#tagsOf(id) : [reference];
    for (const name of names) held.delete(name);
    const wasThere = names.length > 0 || this.#images.has(id) || this.#engine.untagged.has(id);
    if (!isUsedById) this.#engine.untagged.delete(id);
    const isNamed = this.#tagsOf(id).length > 0;
    if (!isNamed && !containers.some((item) => item.imageId === id)) this.#images.delete(id);
    return wasThere;
  }

  async #steps(
    build: FakeImageBuild,
    onOutput: (line: BuildOutput) => void,
    signal: AbortSignal,
  ): Promise<void> {
    if (build.error) throw build.error;
    const steps = build.steps ?? DEFAULT_STEPS;
    for (const [index, text] of steps.entries()) {
      const number = index + 1;
      onOutput({ type: "step", number, total: steps.length, text });
      const isLast = number === steps.length;
      const fails = build.fails?.step === number ? build.fails : undefined;
      const lines = fails?.lines ?? (isLast ? (build.lines ?? []) : []);
      for (const line of lines) onOutput({ type: "log", text: line });
      if (isLast && build.hangs) await forever(signal);
      if ((isLast || fails) && build.buildMs)
        await delay(this.#engine.clock, build.buildMs, signal);
      signal.throwIfAborted();
      if (fails) throw stepFailed(number, steps.length, text, fails.exitCode ?? 1, lines);
      if (isLast && build.cut)
        throw new BerthError(
          "engine_unreachable",
          "cannot build the image: the engine is unreachable, the connection was cut",
        );
    }
  }

  #make({ options, contextDigest }: FakeBuildRun, build: FakeImageBuild) {
    const { clock } = this.#engine;
    const { tag, dockerfile, target, args } = options;
    const recipe = JSON.stringify([contextDigest, dockerfile, target, args]);
    const imageId = `sha256:${createHash("sha256").update(recipe).digest("hex")}`;
    const bytes = build.bytes ?? 10 * 2 ** 20;
    if (!this.#images.has(imageId)) this.#images.set(imageId, { bytes, createdMs: clock.now() });
    this.#engine.tagImage(tag, build.image ?? {}, imageId);
    return { imageId, bytes };
  }

  #tagsOf(id: string): string[] {
    return [...this.#engine.localImages]
      .filter(([, image]) => image.id === id)
      .map(([tag]) => tag)
      .toSorted();
  }
}

function stepFailed(
  number: number,
  total: number,
  text: string,
  exitCode: number,
  lines: readonly string[],
): BerthError {
  const tail = lines.length > 0 ? `; last lines: ${lines.join(" | ")}` : "";
  return new BerthError(
    "build_failed",
    `step ${number} of ${total} (${text}) failed with exit code ${exitCode}${tail}`,
  );
}

function forever(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}
