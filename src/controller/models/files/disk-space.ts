import { statfs } from "node:fs/promises";
import { diskFull } from "./failures.ts";

/** What downloads leave free: the store writes to the same disk, and must not fail because of them. */
const RESERVE_BYTES = 64 * 2 ** 20;

interface Hold {
  readonly missingBytes: () => number;
  holders: number;
}

/** What running downloads will still take, so that two do not count on the same free space. */
export class DiskSpace {
  readonly #freeBytes: () => Promise<number>;
  readonly #holds = new Map<string, Hold>();

  constructor(freeBytes: () => Promise<number>) {
    this.#freeBytes = freeBytes;
  }

  /** Counts a content in until it is given back; one that several models want counts once. */
  hold(content: string, missingBytes: () => number): Disposable {
    const hold = this.#holds.get(content) ?? { missingBytes, holders: 0 };
    this.#holds.set(content, hold);
    hold.holders += 1;
    return {
      [Symbol.dispose]: () => {
        hold.holders -= 1;
        if (hold.holders === 0) this.#holds.delete(content);
      },
    };
  }

  /** Throws `disk_full` where there is no room for all that is held. */
  async check(): Promise<void> {
    let neededBytes = 0;
    for (const { missingBytes } of this.#holds.values()) neededBytes += missingBytes();
    if (neededBytes === 0) return;
    const freeBytes = await this.#freeBytes();
    if (neededBytes + RESERVE_BYTES > freeBytes)
      throw diskFull(neededBytes, freeBytes, RESERVE_BYTES);
  }
}

/** Bytes that an ordinary user may still write there. */
export async function freeBytesAt(dir: string): Promise<number> {
  const { bavail, bsize } = await statfs(dir);
  return bavail * bsize;
}
