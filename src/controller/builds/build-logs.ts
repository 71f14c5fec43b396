import { closeSync, mkdirSync, openSync, writeSync } from "node:fs";
import { type FileHandle, open, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { formatBytes } from "../../base/units.ts";
import type { SecretMask } from "../secrets/app-secret-mask.ts";

/** Of one build. The last lines, which say how it ended, are written beyond it. */
export const LOG_BYTES_MAX = 16 * 2 ** 20;
/** A program that writes without newlines must not fill the memory of whoever reads. */
const LINE_LENGTH_MAX = 16_384;
const READ_BYTES = 64 * 1024;

/** The logs of builds, one file each: `<dir>/<id>.log`. What is being written can be followed by any number of readers. */
export class BuildLogs {
  readonly #dir: string;
  readonly #bytesMax: number;
  readonly #open = new Map<number, BuildLogWriter>();

  constructor(dir: string, bytesMax: number = LOG_BYTES_MAX) {
    this.#dir = dir;
    this.#bytesMax = bytesMax;
  }

  /** Begins the log of a build. A disk that is full costs the log, not the build. */
  create(id: number, mask: SecretMask): BuildLogWriter {
    mkdirSync(this.#dir, { recursive: true, mode: 0o700 });
    const log = new BuildLogWriter(this.#file(id), this.#bytesMax, mask, () =>
      this.#open.delete(id),
    );
    this.#open.set(id, log);
    return log;
  }

  /** Adds a line to the log of a build that has ended. */
  appendLine(id: number, line: string): void {
    const log = this.create(id, (text) => text);
    log.end(line);
  }

  /** The lines so far, then with `follow` what comes until the log ends. Undefined where there is no file. */
  async *read(
    id: number,
    options: { readonly follow: boolean },
    signal: AbortSignal,
  ): AsyncGenerator<string, boolean> {
    const file = await open(this.#file(id), "r").catch(() => undefined);
    if (!file) return false;
    const lines = new LineReader(file);
    try {
      for (;;) {
        // Asked before reading: what is written meanwhile is either read now or waited for next.
        const log = this.#open.get(id);
        const nextChange = options.follow ? log?.waitForChange(signal) : undefined;
        for await (const line of lines.next()) {
          if (signal.aborted) return true;
          yield line;
        }
        if (!nextChange || signal.aborted) return true;
        await nextChange;
      }
    } finally {
      await file.close();
    }
  }

  async remove(ids: readonly number[]): Promise<void> {
    for (const id of ids) await rm(this.#file(id), { force: true });
  }

  /** Numbers of the builds that have a log. */
  async ids(): Promise<number[]> {
    const names = await readdir(this.#dir).catch(() => [] as string[]);
    return names.flatMap((name) => /^(\d+)\.log$/.exec(name)?.[1] ?? []).map(Number);
  }

  #file(id: number): string {
    return join(this.#dir, `${id}.log`);
  }
}

/** One log that is being written. */
export class BuildLogWriter {
  readonly #file: string;
  readonly #bytesMax: number;
  readonly #mask: SecretMask;
  readonly #onEnd: () => void;
  readonly #waiting = new Set<() => void>();
  #descriptor: number | undefined;
  #bytes = 0;
  #isTruncated = false;
  #hasEnded = false;

  constructor(file: string, bytesMax: number, mask: SecretMask, onEnd: () => void) {
    this.#file = file;
    this.#bytesMax = bytesMax;
    this.#mask = mask;
    this.#onEnd = onEnd;
    this.#write("");
  }

  /** Text of one or several lines. */
  write(text: string): void {
    if (this.#hasEnded || this.#isTruncated) return;
    const lines = this.#formatLines(text);
    if (this.#bytes + lines.length > this.#bytesMax) {
      this.#isTruncated = true;
      this.#write(
        `... the log is cut here, at ${formatBytes(this.#bytesMax)}; the build goes on\n`,
      );
      return;
    }
    this.#write(lines);
  }

  /** The last line. Readers end after it. */
  end(line: string): void {
    if (this.#hasEnded) return;
    this.#write(this.#formatLines(line));
    this.#hasEnded = true;
    if (this.#descriptor !== undefined) closeSync(this.#descriptor);
    this.#descriptor = undefined;
    this.#onEnd();
    this.#wake();
  }

  /** Resolves when more has been written, when the log has ended, or when the signal aborts. */
  waitForChange(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        this.#waiting.delete(done);
        signal.removeEventListener("abort", done);
        resolve();
      };
      this.#waiting.add(done);
      signal.addEventListener("abort", done, { once: true });
    });
  }

  #formatLines(text: string): string {
    const lines = text
      .replace(/\r?\n$/, "")
      .split(/\r?\n/)
      // Of a progress bar that overwrites itself, the last state counts.
      .map((line) => this.#mask(line.slice(line.lastIndexOf("\r") + 1)))
      .map((line) =>
        line.length > LINE_LENGTH_MAX ? `${line.slice(0, LINE_LENGTH_MAX)} ...` : line,
      );
    return `${lines.join("\n")}\n`;
  }

  /** Written at once: what a build said last must be there when Berth is killed. */
  #write(text: string): void {
    try {
      this.#descriptor ??= openSync(this.#file, "a", 0o600);
      if (text !== "") writeSync(this.#descriptor, text);
      this.#bytes += Buffer.byteLength(text);
    } catch {
      this.#isTruncated = true;
    }
    this.#wake();
  }

  #wake(): void {
    for (const done of this.#waiting) done();
  }
}

/** Whole lines of a file that grows; what stands after the last newline comes with the next read. */
class LineReader {
  readonly #file: FileHandle;
  readonly #buffer = Buffer.alloc(READ_BYTES);
  readonly #decoder = new TextDecoder();
  #rest = "";

  constructor(file: FileHandle) {
    this.#file = file;
  }

  async *next(): AsyncGenerator<string> {
    for (;;) {
      const { bytesRead } = await this.#file.read(this.#buffer, 0, READ_BYTES);
      if (bytesRead === 0) return;
      const text = this.#decoder.decode(this.#buffer.subarray(0, bytesRead), { stream: true });
      const lines = (this.#rest + text).split("\n");
      this.#rest = lines.pop() ?? "";
      yield* lines;
    }
  }
}
