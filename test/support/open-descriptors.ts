import { openSync, readdirSync, readlinkSync } from "node:fs";

/** How many descriptors this process has open. */
export function openDescriptors(): number {
  return readdirSync("/proc/self/fd").length;
}

/** A descriptor that nobody else has. */
export function newDescriptor(): number {
  return openSync("/dev/null", "r");
}

/** What the descriptors of a process lead to: paths, `socket:[7]`, `pipe:[8]`. */
export function openedBy(pid: number | "self"): string[] {
  const folder = `/proc/${pid}/fd`;
  return readdirSync(folder).flatMap((fd) => {
    try {
      return readlinkSync(`${folder}/${fd}`);
    } catch {
      return []; // closed meanwhile
    }
  });
}
