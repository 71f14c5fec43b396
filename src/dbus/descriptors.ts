import { close } from "node:fs";

/** Closes them, soon. One that is closed already is nobody's concern. */
export function closeFds(fds: Iterable<number>): void {
  for (const fd of new Set(fds)) close(fd, () => {});
}
