import { writeFileSync } from "node:fs";

/** Fills all free space of a small file system. */
export function fillDisk(file: string): void {
  const piece = Buffer.alloc(64 * 1024);
  for (const size of [piece.length, 4_096]) {
    for (;;) {
      try {
        writeFileSync(file, piece.subarray(0, size), { flag: "a" });
      } catch (error) {
        if (error instanceof Error && "code" in error && error.code === "ENOSPC") break;
        throw error;
      }
    }
  }
}
