import { close } from "node:fs";

/** Closes the descriptors asynchronously and ignores errors. */
export function closeFds(fds: Iterable<number>): void {
  for (const fd of new Set(fds)) close(fd, () => {});
}
