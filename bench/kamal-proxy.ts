import { type ChildProcess, execFile, spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { which } from "../scripts/engine.mjs";
import { freePorts } from "../test/support/free-port.ts";

const START_LIMIT_MS = 15_000;

/** Runs the proxy of Kamal for comparison, if the program `kamal-proxy` is on the search path. */
export class KamalProxy implements AsyncDisposable {
  readonly port: number;
  readonly pid: number;
  readonly #process: ChildProcess;
  readonly #dir: string;

  private constructor(port: number, process: ChildProcess, dir: string) {
    this.port = port;
    this.pid = process.pid ?? 0;
    this.#process = process;
    this.#dir = dir;
  }

  /** Starts the proxy. Returns undefined if the program is not installed. */
  static async start(): Promise<KamalProxy | undefined> {
    if (!which("kamal-proxy")) return undefined;
    const dir = await mkdtemp(join(tmpdir(), "berth-bench-kamal-"));
    const [port = 0, securePort = 0] = await freePorts(2);
    const child = spawn(
      "kamal-proxy",
      ["run", `--http-port=${port}`, `--https-port=${securePort}`],
      // The proxy has its own process session, as Berth's Caddy has, because the scheduler shares cores by session.
      { stdio: "ignore", detached: true, env: environment(dir) },
    );
    const proxy = new KamalProxy(port, child, dir);
    const end = Date.now() + START_LIMIT_MS;
    while (!(await proxy.#run("list"))) {
      if (child.exitCode !== null || Date.now() > end) {
        await proxy[Symbol.asyncDispose]();
        throw new Error("kamal-proxy does not come up");
      }
      await sleep(50);
    }
    return proxy;
  }

  /**
   * Registers the target for all host names. Resolves when the target is healthy; the proxy checks this every 50 ms.
   */
  async deploy(target: string): Promise<void> {
    const check = ["--health-check-path=/", "--health-check-interval=50ms"];
    if (!(await this.#run("deploy", "bench", `--target=${target}`, ...check)))
      throw new Error("kamal-proxy has not deployed");
  }

  async #run(...args: readonly string[]): Promise<boolean> {
    return promisify(execFile)("kamal-proxy", args, { env: environment(this.#dir) }).then(
      () => true,
      () => false,
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#process.kill("SIGKILL");
    await rm(this.#dir, { recursive: true, force: true });
  }
}

/** Returns an environment in which the proxy keeps its state and its socket in the folder `dir`. */
function environment(dir: string): NodeJS.ProcessEnv {
  return {
    ...process.env,
    HOME: dir,
    TMPDIR: dir,
    XDG_CONFIG_HOME: dir,
    XDG_RUNTIME_DIR: dir,
  };
}
