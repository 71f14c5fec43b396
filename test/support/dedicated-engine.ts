import { spawnSync } from "node:child_process";
import { copyFile, mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type Docker from "dockerode";
import { type Isolation, startDockerd, stopDockerd } from "../../scripts/engine.mjs";
import { connectTo } from "./engine-client.ts";
import { killProcess, processesRootedBelow } from "./processes.ts";

/** A Docker engine for a single test. The test may stop the engine, because no other test has containers on it. */
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
    // Several test runs may be active at the same time, so each engine has its own bridge and address range.
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

  /** Stops the engine with SIGTERM, as a service manager does. Its containers end too. */
  async stop(): Promise<void> {
    const isolation = this.#isolation;
    await stopDockerd({ pidFile: join(this.#dir, "docker.pid"), isolation });
    // On a busy machine, an engine may exit before it has unmounted its containers' file systems. After a restart it
    // could not remove those containers ("device or resource busy"), so this harness unmounts them.
    await unmountBelow(this.#dir);
  }

  /**
   * Creates a containerd task with the container's id and does not start it. A container start that the engine's
   * exit interrupts leaves such a task.
   */
  async leaveTask(id: string): Promise<void> {
    const root = join(this.#dir, "leftover");
    await mkdir(root, { recursive: true });
    await copyFile(process.execPath, join(root, "node"));
    // ctr creates the task, but does not start it, because it cannot write the pid file to a missing folder. The engine
    // does not notice the task, because it receives only the events of started tasks.
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
    // The bridge of a network that is not removed would stay on the machine after the engine has ended.
    await this.docker.pruneNetworks().catch(() => {});
    await this.stop();
    // The process of a build step may outlive the engine, so it is killed.
    for (const pid of await processesRootedBelow(this.#dir)) killProcess(pid);
    await rm(this.#dir, { recursive: true, force: true });
  }
}

/** Unmounts the file systems that a stopped engine has left mounted below `dir`. */
async function unmountBelow(dir: string): Promise<void> {
  const mounts = (await readFile("/proc/self/mounts", "utf8")).split("\n");
  const below = mounts.map((line) => line.split(" ")[1] ?? "").filter((at) => at.startsWith(dir));
  for (const mount of below.toReversed()) spawnSync("umount", ["-l", mount], { stdio: "ignore" });
}
