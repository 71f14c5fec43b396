import { constants } from "node:fs";
import { open, readFile } from "node:fs/promises";
import { getErrorCode } from "../../../base/errors.ts";

/** At most this number of bytes is read from a file; the files that the system writes are shorter. */
const FILE_BYTES_MAX = 64 * 1024;

/** A fact about a process that this process has no permission to read. */
export class HiddenFactError extends Error {}

export type FlatpakInfo =
  | { readonly kind: "none" | "hidden" | "odd" }
  | { readonly kind: "flatpak"; readonly text: string };

/** Reads facts about processes from /proc. Only tests set `root`. */
export class ProcessFiles {
  readonly #root: string;

  constructor(root = "/proc") {
    this.#root = root;
  }

  /**
   * Returns the start time in ticks since boot, which together with the id identifies a process uniquely. Undefined
   * if there is no such process.
   */
  async startTime(pid: number): Promise<string | undefined> {
    const stat = await readFile(`${this.#root}/${pid}/stat`, "utf8").catch(() => undefined);
    // In /proc/PID/stat, the program name is in parentheses and may itself contain parentheses and spaces.
    const fields = stat?.slice(stat.lastIndexOf(")") + 2).split(" ");
    return fields?.[0] === "Z" ? undefined : fields?.[19];
  }

  /**
   * Returns the process id that a pidfd refers to, while that process lives. The pidfd must be open in this process.
   */
  async pidOfPidfd(fd: number): Promise<number | undefined> {
    const info = await readFile(`${this.#root}/self/fdinfo/${fd}`, "utf8").catch(() => "");
    const pid = Number(/^Pid:\s*(-?\d+)$/m.exec(info)?.[1]);
    return pid > 0 ? pid : undefined;
  }

  /**
   * Returns the text of the file `cgroup`; "" if there is none. Rejects with HiddenFactError if the file cannot be
   * read, and with any other system error.
   */
  async cgroup(pid: number): Promise<string> {
    return await readTextIfPresent(`${this.#root}/${pid}/cgroup`);
  }

  /**
   * Returns the label that a security module, such as AppArmor, has given the process; "" if there is none. Rejects
   * like `cgroup`.
   */
  async securityLabel(pid: number): Promise<string> {
    return await readTextIfPresent(`${this.#root}/${pid}/attr/current`);
  }

  /**
   * Returns flatpak's description of the process's sandbox. The result `hidden` means that it is unknown if the process
   * has a sandbox. The result `odd` means that the file is not a regular file, which happens only if a process hides
   * its sandbox. Rejects with any other system error: running out of descriptors, for example, must not make a process
   * look unsandboxed.
   */
  async flatpakInfo(pid: number): Promise<FlatpakInfo> {
    try {
      const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
      await using file = await open(`${this.#root}/${pid}/root/.flatpak-info`, flags);
      const stat = await file.stat();
      if (!stat.isFile()) return { kind: "odd" };
      const { buffer, bytesRead } = await file.read({ buffer: Buffer.alloc(FILE_BYTES_MAX) });
      return { kind: "flatpak", text: buffer.toString("utf8", 0, bytesRead) };
    } catch (error) {
      const code = getErrorCode(error);
      if (code === "ENOENT" || code === "ENOTDIR" || code === "ESRCH") return { kind: "none" };
      if (code === "EACCES" || code === "EPERM") {
        const isShared = pid !== process.pid && (await this.#hasOwnRoot(pid));
        return isShared ? await this.flatpakInfo(process.pid) : { kind: "hidden" };
      }
      // ELOOP means that the path is a link, ENXIO that it is a socket or a device without a driver.
      if (code === "ELOOP" || code === "ENXIO") return { kind: "odd" };
      throw error;
    }
  }

  /**
   * Returns true if the process certainly has the same root directory as this process. The kernel lets every process
   * read `mountinfo`, even of a process that hides its root. A mount has one id in all namespaces, and a root directory
   * that is not a mount point is not listed.
   */
  async #hasOwnRoot(pid: number): Promise<boolean> {
    const [root = "", own] = await Promise.all(
      [pid, process.pid].map(async (of) =>
        parseRootMounts(await readFile(`${this.#root}/${of}/mountinfo`, "utf8").catch(() => "")),
      ),
    );
    return root !== "" && root === own;
  }
}

async function readTextIfPresent(path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    const code = getErrorCode(error);
    // The kernel answers EINVAL if no security module gives processes a label.
    if (code === "ENOENT" || code === "ESRCH" || code === "EINVAL") return "";
    if (code === "EACCES" || code === "EPERM") throw new HiddenFactError(`${path}: ${code}`);
    throw error;
  }
}

/**
 * Returns the ids of the mounts at `/` in the text of a file `mountinfo`, whose lines begin with the id, the parent's
 * id, the device, the folder in the file system, and the mount point. Lists no mount if the root is not a mount point.
 */
function parseRootMounts(text: string): string {
  const lines = text.split("\n").map((line) => line.split(" "));
  return lines.flatMap((fields) => (fields[4] === "/" ? (fields[0] ?? []) : [])).join();
}
