import { spawnSync } from "node:child_process";
import { copyFile, mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type Docker from "dockerode";
import { type Isolation, startDockerd, stopDockerd } from "../../scripts/engine.mjs";
import { connectTo } from "./engine-client.ts";
import { killProcess, processesRootedBelow } from "./processes.ts";

/** An engine for one test, which may stop it: nobody else's containers are on it. */
export class DedicatedEngine implements AsyncDisposable {
  readonly host: string;
  readonly docker: Docker;
  readonly #dir: string;
  readonly #isolation: Isolation;
  readonly #leftTasks: string[] = [];

  static async start(): Promise<DedicatedEngine> {
    const engine = new DedicatedEngine(await mkdtemp(join(tmpdir(), "berth-engine-")));
    try {
      await engine.start();
    } catch (error) {
      await engine[Symbol.asyncDispose]();
      throw error;
    }
    return engine;
  }

  private constructor(dir: string) {
    this.#dir = dir;
    this.host = `unix://${join(dir, "docker.sock")}`;
    this.docker = connectTo(this.host);
    // Several runs of the tests may go on at once: each has a bridge and a range of its own.
    const second = 216 + (process.pid % 32);
    this.#isolation = {
      bridge: `berth-e${process.pid}`,
      bridgeAddress: `10.${second}.128.1/24`,
      range: `10.${second}.0.0/16`,
      pool: `10.${second}.0.0/17`,
      outbound: false,
    };
  }

  async start(): Promise<void> {
    await startDockerd({
      socket: join(this.#dir, "docker.sock"),
      dataRoot: join(this.#dir, "data"),
      execRoot: join(this.#dir, "exec"),
      pidFile: join(this.#dir, "docker.pid"),
      logFile: join(this.#dir, "dockerd.log"),
      isolation: this.#isolation,
    });
  }

  /** SIGTERM, as a service manager does: its containers end too. */
  async stop(): Promise<void> {
    const isolation = this.#isolation;
    await stopDockerd({ pidFile: join(this.#dir, "docker.pid"), isolation });
    // On a busy machine an engine ends before its containers' file systems are unmounted; started
    // again, it could never remove those containers: "device or resource busy".
    await unmountBelow(this.#dir);
  }

  /**
   * What a start leaves that the engine's own end cuts short: a task at containerd, under the container's id, that
   * was made and never started.
   */
  async leaveTask(id: string): Promise<void> {
    const root = join(this.#dir, "leftover");
    await mkdir(root, { recursive: true });
    await copyFile(process.execPath, join(root, "node"));
    // ctr fails between the two, where it cannot write down the process; the engine hears of starts only.
    const flags = ["--detach", "--null-io", "--pid-file", "/nonexistent/pid", "--rootfs", root];
    const said = this.#ctr("run", ...flags, id, "/node");
    if (!said.includes("/nonexistent/")) throw new Error(`ctr left no task: ${said}`);
    this.#leftTasks.push(id);
  }

  #ctr(...words: readonly string[]): string {
    const socket = join(this.#dir, "exec/containerd/containerd.sock");
    const flags = ["--address", socket, "--namespace", this.#isolation.bridge];
    const { stderr, error } = spawnSync("ctr", [...flags, ...words], { encoding: "utf8" });
    if (error) throw error;
    return stderr;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const containers = await this.docker.listContainers({ all: true }).catch(() => []);
    for (const { Id } of containers)
      await this.docker
        .getContainer(Id)
        .remove({ force: true })
        .catch(() => {});
    for (const id of this.#leftTasks) this.#ctr("tasks", "delete", "--force", id);
    // The bridges of networks outlive an engine that still has them.
    await this.docker.pruneNetworks().catch(() => {});
    await this.stop();
    // A step of a build outlives an engine that gave up waiting for it.
    for (const pid of await processesRootedBelow(this.#dir)) killProcess(pid);
    await rm(this.#dir, { recursive: true, force: true });
  }
}

/** What an engine that was stopped in a hurry has left mounted. */
async function unmountBelow(dir: string): Promise<void> {
  const mounts = (await readFile("/proc/self/mounts", "utf8")).split("\n");
  const below = mounts.map((line) => line.split(" ")[1] ?? "").filter((at) => at.startsWith(dir));
  for (const mount of below.toReversed()) spawnSync("umount", ["-l", mount], { stdio: "ignore" });
}
