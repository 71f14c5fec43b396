import { appendFile, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Type } from "typebox";
import { isAbortError } from "../../base/errors.ts";
import { LazyValidator } from "../../base/json-validator.ts";
import type { Logger } from "../../base/logger.ts";
import type { WorkloadRuntime } from "../runtime/port.ts";
import type { ArchivedLine, LogArchive } from "./log-archive.ts";

const lineValidator = new LazyValidator<ArchivedLine>(
  Type.Object({
    time: Type.String(),
    stream: Type.Union([Type.Literal("stdout"), Type.Literal("stderr")]),
    message: Type.String(),
    container: Type.String(),
  }),
);

/**
 * The maximum number of lines that are kept of each container. With this limit and the limit on containers, an App
 * needs some megabytes at most.
 */
const LINES_MAX = 10_000;
const CONTAINERS_MAX = 5;
/**
 * The maximum number of bytes that are kept of a log. Of a longer log, the last lines are kept, because they say why
 * the container ended.
 */
const BYTES_MAX = 4 * 2 ** 20;

export interface FileLogArchiveOptions {
  readonly dir: string;
  readonly runtime: WorkloadRuntime;
  readonly logger: Logger;
  readonly now: () => number;
}

/**
 * One file of JSON lines for each container, named by the time when it was archived:
 * `<dir>/<app>/<time>-<container>.jsonl`.
 */
export class FileLogArchive implements LogArchive {
  readonly #options: FileLogArchiveOptions;

  constructor(options: FileLogArchiveOptions) {
    this.#options = options;
  }

  async keep(
    app: string,
    container: { id: string; name: string },
    signal: AbortSignal,
  ): Promise<void> {
    try {
      const lines: string[] = [];
      let bytes = 0;
      let first = 0;
      for await (const line of this.#options.runtime.logs(
        container.id,
        { tail: LINES_MAX, follow: false },
        signal,
      )) {
        const text = JSON.stringify({ ...line, container: container.name });
        lines.push(text);
        bytes += text.length;
        for (; bytes > BYTES_MAX; first += 1) {
          bytes -= lines[first]?.length ?? 0;
          lines[first] = "";
        }
      }
      const kept = lines.slice(first);
      const folder = this.#folderOf(app);
      if (kept.length === 0 || folder === undefined) return;
      await mkdir(folder, { recursive: true, mode: 0o700 });
      const file = join(
        folder,
        `${String(this.#options.now()).padStart(15, "0")}-${container.name}.jsonl`,
      );
      await writeFile(file, "", { mode: 0o600 });
      await appendFile(file, `${kept.join("\n")}\n`);
      const files = (await readdir(folder)).toSorted();
      for (const stale of files.slice(0, -CONTAINERS_MAX))
        await rm(join(folder, stale), { force: true });
    } catch (error) {
      if (isAbortError(error) && signal.aborted) throw error;
      this.#options.logger.warn(
        { app, container: container.name, err: error },
        "log lines of a removed container were not kept",
      );
    }
  }

  async read(app: string): Promise<readonly ArchivedLine[]> {
    const folder = this.#folderOf(app);
    if (folder === undefined) return [];
    const files = await readdir(folder).catch(() => [] as string[]);
    const lines: ArchivedLine[] = [];
    for (const file of files.toSorted()) {
      const text = await readFile(join(folder, file), "utf8").catch(() => "");
      for (const entry of text.split("\n")) {
        const line = parseArchivedLine(entry);
        if (line) lines.push(line);
      }
    }
    return lines;
  }

  async drop(app: string): Promise<void> {
    const folder = this.#folderOf(app);
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  }

  /**
   * Returns the folder of an App's logs; undefined for an invalid name. The name of an App that is not in the store
   * comes from a container's label, which any user of the engine may have written.
   */
  #folderOf(app: string): string | undefined {
    return /^[a-z0-9][a-z0-9-]*$/.test(app) ? join(this.#options.dir, app) : undefined;
  }
}

/** Parses a line of the archive. Skips a line that a crash has cut off. */
function parseArchivedLine(text: string): ArchivedLine | undefined {
  try {
    const line: unknown = JSON.parse(text);
    return lineValidator.isValid(line) ? line : undefined;
  } catch {
    return undefined;
  }
}
