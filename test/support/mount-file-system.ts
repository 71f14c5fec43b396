import { execFileSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";

const LIMIT_MS = 60_000;

/**
 * Mounts a file system at a folder, as root; `args` are the arguments of mount(8) without the target. Returns a
 * function that unmounts the file system when no process has files open there. With "at once", the returned function
 * does not wait, and processes keep their open files.
 */
export function mountFileSystem(
  target: string,
  args: readonly string[],
): (when?: "unused" | "at once") => Promise<void> {
  mkdirSync(target, { recursive: true });
  runAsRoot("mount", [...args, target]);
  let isMounted = true;
  return async (when = "unused") => {
    const flags = when === "at once" ? ["--lazy"] : [];
    for (const deadline = Date.now() + LIMIT_MS; isMounted; ) {
      try {
        runAsRoot("umount", [...flags, target]);
        isMounted = false;
      } catch (error) {
        // A process may have a file open at the moment, so the unmount is tried again.
        if (Date.now() > deadline) throw error;
        await pause(20);
      }
    }
  };
}

function runAsRoot(program: string, args: readonly string[]): void {
  const isRoot = process.getuid?.() === 0;
  const [command, words] = isRoot ? [program, args] : ["sudo", ["-n", program, ...args]];
  try {
    execFileSync(command, words, { stdio: ["ignore", "ignore", "pipe"] });
  } catch (error) {
    throw new Error(`these tests have to be allowed to ${program} (as root, or by sudo)`, {
      cause: error,
    });
  }
}
