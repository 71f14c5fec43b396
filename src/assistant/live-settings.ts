import { statSync } from "node:fs";
import { getErrorMessage } from "../base/errors.ts";
import type { Logger } from "../base/logger.ts";
import { type CompanionFile, readCompanionFile } from "../config/companion-settings-file.ts";

/**
 * The companion's settings as the file has them now. A person who disables a tool wants it disabled for the
 * next call: so the file is looked at each time, which costs one stat. While it is broken or
 * empty, what it said last counts; without a file there are the defaults.
 */
export class LiveSettings {
  readonly #file: string;
  readonly #homeDirectory: string;
  readonly #logger: Logger;
  #settings: CompanionFile;
  #lastStamp: string;

  constructor(options: {
    readonly file: string;
    readonly homeDirectory: string;
    /** As it was read at the start. */
    readonly settings: CompanionFile;
    readonly logger: Logger;
  }) {
    this.#file = options.file;
    this.#homeDirectory = options.homeDirectory;
    this.#logger = options.logger;
    this.#settings = options.settings;
    // It may have changed since then.
    this.#lastStamp = "";
  }

  current(): CompanionFile {
    const now = this.#readStamp();
    if (now === this.#lastStamp) return this.#settings;
    this.#lastStamp = now;
    try {
      this.#settings = readCompanionFile(this.#file, this.#homeDirectory);
    } catch (error) {
      this.#logger.error(
        { reason: getErrorMessage(error) },
        "the settings are broken; the former ones count",
      );
    }
    return this.#settings;
  }

  /** Differs where the file does; where it cannot be looked at, reading it says why. */
  #readStamp(): string {
    try {
      const found = statSync(this.#file, { bigint: true, throwIfNoEntry: false });
      // Many editors empty a file before they write it: for that moment nothing may be allowed by it.
      if (found?.size === 0n) return this.#lastStamp;
      return found ? `${found.ino} ${found.size} ${found.mtimeNs} ${found.ctimeNs}` : "absent";
    } catch {
      return "unreadable";
    }
  }
}
