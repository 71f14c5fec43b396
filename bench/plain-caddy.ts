import { type ChildProcess, execFile, spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { parseCaddyVersion } from "../src/controller/ingress/caddy-version.ts";
import { freePorts } from "../test/support/free-port.ts";

const START_LIMIT_MS = 15_000;

/** A Caddy that only forwards all requests to one address. No ingress that uses Caddy can be faster. */
export class PlainCaddy implements AsyncDisposable {
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

  /** Starts Caddy. `upstream` is HOST:PORT. */
  static async start(upstream: string): Promise<PlainCaddy> {
    const dir = await mkdtemp(join(tmpdir(), "berth-bench-caddy-"));
    const [port = 0] = await freePorts(1);
    const server = {
      listen: [`127.0.0.1:${port}`],
      automatic_https: { disable: true },
      routes: [{ handle: [{ handler: "reverse_proxy", upstreams: [{ dial: upstream }] }] }],
    };
    const file = join(dir, "caddy.json");
    const config = { admin: { disabled: true }, apps: { http: { servers: { plain: server } } } };
    await writeFile(file, JSON.stringify(config));
    const child = spawn("caddy", ["run", "--config", file], {
      stdio: "ignore",
      // Caddy has its own process session, as Berth's Caddy has, because the scheduler shares cores by session.
      detached: true,
      env: { ...process.env, HOME: dir, XDG_DATA_HOME: dir, XDG_CONFIG_HOME: dir },
    });
    const caddy = new PlainCaddy(port, child, dir);
    const end = Date.now() + START_LIMIT_MS;
    while (!(await accepts(port))) {
      if (child.exitCode !== null || Date.now() > end) {
        await caddy[Symbol.asyncDispose]();
        throw new Error("a plain Caddy does not come up");
      }
      await sleep(50);
    }
    return caddy;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#process.kill("SIGKILL");
    await rm(this.#dir, { recursive: true, force: true });
  }
}

/** Returns the version of the Caddy on the search path, which the ingress also uses. */
export async function readCaddyVersion(): Promise<string> {
  const { stdout } = await promisify(execFile)("caddy", ["version"]);
  return parseCaddyVersion(stdout) ?? "2.6.0";
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: "127.0.0.1", port });
    socket.once("error", () => resolve(false));
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
  });
}
