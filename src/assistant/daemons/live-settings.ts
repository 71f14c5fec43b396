import { statSync } from "node:fs";
import { getErrorMessage } from "../../base/errors.ts";
import type { Logger } from "../../base/logger.ts";
import { type CompanionFile, readCompanionFile } from "../../config/companion-settings-file.ts";

interface LiveSettingsOptions {
  readonly file: string;
  readonly homeDirectory: string;
  /** The settings that the daemon read when it started. */
  readonly settings: CompanionFile;
  readonly logger: Logger;
}

/**
 * The companion's settings as they are in the settings file now. A tool that the user disables must be disabled from
 * the next call on, so the file is checked at each use, which costs one stat call. While the file is invalid or empty,
 * the last valid settings apply; without a file, the defaults do.
 */
export class LiveSettings {
  readonly #options: LiveSettingsOptions;
  #settings: CompanionFile;
  /**
   * The inode, size and times of the settings file when it was last read. The initial value matches no file, so the
   * first use reads the file again: it may have changed since the daemon started.
   */
  #lastStamp = "";

  constructor(options: LiveSettingsOptions) {
    this.#options = options;
    this.#settings = options.settings;
  }

  current(): CompanionFile {
    const now = this.#readStamp();
    if (now === this.#lastStamp) return this.#settings;
    this.#lastStamp = now;
    try {
      this.#settings = readCompanionFile(this.#options.file, this.#options.homeDirectory);
    } catch (error) {
      this.#options.logger.error(
        { reason: getErrorMessage(error) },
        "the settings file is invalid; the last valid settings still apply",
      );
    }
    return this.#settings;
  }

  /**
   * Returns a stamp that changes when the settings file changes. Ignores an error of stat, because reading the file
   * reports it.
   */
  #readStamp(): string {
    try {
      const found = statSync(this.#options.file, { bigint: true, throwIfNoEntry: false });
      // Many editors empty a file before they write it. An empty file therefore counts as unchanged, so that the
      // defaults do not apply while an editor writes.
      if (found?.size === 0n) return this.#lastStamp;
      return found ? `${found.ino} ${found.size} ${found.mtimeNs} ${found.ctimeNs}` : "absent";
    } catch {
      return "unreadable";
    }
  }
}
