import { openSync, readdirSync, readlinkSync } from "node:fs";

/** Returns the number of open file descriptors of this process. */
export function openDescriptors(): number {
  return readdirSync("/proc/self/fd").length;
}

/** Opens a new file descriptor that no other code uses. */
export function newDescriptor(): number {
  return openSync("/dev/null", "r");
}

/** Returns the targets of all file descriptors of a process: paths, `socket:[7]`, `pipe:[8]`. */
export function openedBy(pid: number | "self"): string[] {
  const folder = `/proc/${pid}/fd`;
  return readdirSync(folder).flatMap((fd) => {
    try {
      return readlinkSync(`${folder}/${fd}`);
    } catch {
      return []; // The descriptor has been closed in the meantime.
    }
  });
}
