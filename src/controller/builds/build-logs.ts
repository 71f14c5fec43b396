import { closeSync, mkdirSync, openSync, writeSync } from "node:fs";
import { type FileHandle, open, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { formatBytes } from "../../base/units.ts";
import type { SecretMask } from "../secrets/app-secret-mask.ts";

/** The maximum size of one log. The last lines, which contain the result, are written even if they exceed this size. */
export const LOG_BYTES_MAX = 16 * 2 ** 20;
/** Longer lines are truncated, to limit the memory of readers when a program writes without newlines. */
const LINE_LENGTH_MAX = 16_384;
const READ_BYTES = 64 * 1024;

/** The logs of builds, one file each: `<dir>/<id>.log`. Any number of readers can follow a log. */
export class BuildLogs {
  readonly #dir: string;
  readonly #bytesMax: number;
  readonly #open = new Map<number, BuildLogWriter>();

  constructor(dir: string, bytesMax: number = LOG_BYTES_MAX) {
    this.#dir = dir;
    this.#bytesMax = bytesMax;
  }

  /** Creates the log of a build. On a full disk the log is lost, but the build does not fail. */
  create(id: number, mask: SecretMask): BuildLogWriter {
    mkdirSync(this.#dir, { recursive: true, mode: 0o700 });
    const log = new BuildLogWriter(this.#file(id), this.#bytesMax, mask, () =>
      this.#open.delete(id),
    );
    this.#open.set(id, log);
    return log;
  }

  /** Appends a line to the closed log of a build whose result is found after a restart of Berth. */
  appendLine(id: number, line: string): void {
    const log = this.create(id, (text) => text);
    log.end(line);
  }

  /**
   * Returns the lines of the log so far and, with `follow`, also new lines until the log ends; undefined if there is
   * no file.
   */
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
        // The promise of the next change is created before the lines are read, so that no line is missed in between.
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

  /** Returns the numbers of the builds with a log. */
  async ids(): Promise<number[]> {
    const names = await readdir(this.#dir).catch(() => [] as string[]);
    return names.flatMap((name) => /^(\d+)\.log$/.exec(name)?.[1] ?? []).map(Number);
  }

  #file(id: number): string {
    return join(this.#dir, `${id}.log`);
  }
}

/** Writes the log of a running build. */
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

  write(text: string): void {
    if (this.#hasEnded || this.#isTruncated) return;
    const lines = this.#formatLines(text);
    if (this.#bytes + lines.length > this.#bytesMax) {
      this.#isTruncated = true;
      this.#write(
        `... the log is cut off here, at ${formatBytes(this.#bytesMax)}; the build continues\n`,
      );
      return;
    }
    this.#write(lines);
  }

  /** Writes the last line, and ends the streams of all readers. */
  end(line: string): void {
    if (this.#hasEnded) return;
    this.#write(this.#formatLines(line));
    this.#hasEnded = true;
    if (this.#descriptor !== undefined) closeSync(this.#descriptor);
    this.#descriptor = undefined;
    this.#onEnd();
    this.#wake();
  }

  /** Resolves when more is written, when the log has ended, or when the signal aborts. */
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
      // A progress bar overwrites itself with \r. Only its last state is kept.
      .map((line) => this.#mask(line.slice(line.lastIndexOf("\r") + 1)))
      .map((line) =>
        line.length > LINE_LENGTH_MAX ? `${line.slice(0, LINE_LENGTH_MAX)} ...` : line,
      );
    return `${lines.join("\n")}\n`;
  }

  /** Writes synchronously, so that the last output of a build survives a kill of Berth. */
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

/**
 * Reads the complete lines of a growing file. If the file ends with an incomplete line, a later read returns this line.
 */
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
