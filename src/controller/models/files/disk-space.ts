import { statfs } from "node:fs/promises";
import { diskFullError } from "./download-errors.ts";

/**
 * The free space that downloads leave on the disk. The store writes to the same disk, and must not fail because of
 * downloads.
 */
const RESERVE_BYTES = 64 * 2 ** 20;

interface SpaceReservation {
  readonly missingBytes: () => number;
  holders: number;
}

/** The disk space that running downloads still need, so that two downloads never rely on the same free space. */
export class DiskSpace {
  readonly #freeBytes: () => Promise<number>;
  readonly #reservations = new Map<string, SpaceReservation>();

  constructor(freeBytes: () => Promise<number>) {
    this.#freeBytes = freeBytes;
  }

  /** Reserves space for a file until the handle is disposed of. A file that several models need is counted once. */
  reserve(content: string, missingBytes: () => number): Disposable {
    const hold = this.#reservations.get(content) ?? { missingBytes, holders: 0 };
    this.#reservations.set(content, hold);
    hold.holders += 1;
    return {
      [Symbol.dispose]: () => {
        hold.holders -= 1;
        if (hold.holders === 0) this.#reservations.delete(content);
      },
    };
  }

  /** Throws `disk_full` if the disk has too little free space for the bytes that all running downloads still need. */
  async check(): Promise<void> {
    let neededBytes = 0;
    for (const { missingBytes } of this.#reservations.values()) neededBytes += missingBytes();
    if (neededBytes === 0) return;
    const freeBytes = await this.#freeBytes();
    if (neededBytes + RESERVE_BYTES > freeBytes)
      throw diskFullError(neededBytes, freeBytes, RESERVE_BYTES);
  }
}

/** Returns the number of bytes that a user other than root can write on the disk of the folder. */
export async function readFreeBytes(dir: string): Promise<number> {
  const { bavail, bsize } = await statfs(dir);
  return bavail * bsize;
}
