import { constants } from "node:fs";
import { open, readFile } from "node:fs/promises";

/** What is read of one file of a process; more of it is no file that the system wrote. */
const FILE_BYTES_MAX = 64 * 1024;

export type FlatpakInfo =
  | { readonly kind: "none" | "hidden" | "odd" }
  | { readonly kind: "flatpak"; readonly text: string };

/** What /proc tells about processes. `root` is that of the machine but for tests. */
export class ProcessFiles {
  readonly #root: string;

  constructor(root = "/proc") {
    this.#root = root;
  }

  /**
   * When the process started, in ticks since the boot; with its id it names a process for good. Undefined:
   * there is none.
   */
  async startTime(pid: number): Promise<string | undefined> {
    const stat = await readFile(`${this.#root}/${pid}/stat`, "utf8").catch(() => undefined);
    // The name of the program stands in brackets, and may itself hold brackets and blanks.
    const fields = stat?.slice(stat.lastIndexOf(")") + 2).split(" ");
    return fields?.[0] === "Z" ? undefined : fields?.[19];
  }

  /** The process that a pidfd of this process stands for, while it lives. */
  async pidOfPidfd(fd: number): Promise<number | undefined> {
    const info = await readFile(`${this.#root}/self/fdinfo/${fd}`, "utf8").catch(() => "");
    const pid = Number(/^Pid:\s*(-?\d+)$/m.exec(info)?.[1]);
    return pid > 0 ? pid : undefined;
  }

  /** "" where there is none. Rejects where this process has run out of descriptors or memory. */
  async cgroup(pid: number): Promise<string> {
    return await readTextIfPresent(`${this.#root}/${pid}/cgroup`);
  }

  /** The label of the security module; "" where there is none. Rejects as `cgroup`. */
  async securityLabel(pid: number): Promise<string> {
    return await readTextIfPresent(`${this.#root}/${pid}/attr/current`);
  }

  /**
   * Flatpak's description of the sandbox that the process is in; hidden: it cannot be told whether there is one;
   * odd: something else stands in its place, which nothing but a process that hides its sandbox has. Rejects
   * with what the system says of anything else: out of descriptors, say, nobody is outside of a sandbox.
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
      const code = error instanceof Error && "code" in error ? error.code : undefined;
      if (code === "ENOENT" || code === "ENOTDIR" || code === "ESRCH") return { kind: "none" };
      if (code === "EACCES" || code === "EPERM") return { kind: "hidden" };
      // A link; a socket or a device that nobody listens at.
      if (code === "ELOOP" || code === "ENXIO") return { kind: "odd" };
      throw error;
    }
  }
}

async function readTextIfPresent(path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : undefined;
    if (code === "EMFILE" || code === "ENFILE" || code === "ENOMEM") throw error;
    return "";
  }
}
