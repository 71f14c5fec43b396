import { execFile, spawn } from "node:child_process";
import { constants } from "node:fs";
import { access, open, readFile, rm, writeFile } from "node:fs/promises";
import { delimiter, isAbsolute, join } from "node:path";
import { writeAtomically } from "../../base/atomic-file.ts";
import type { Clock } from "../../base/clock.ts";
import { BerthError } from "../../base/errors.ts";
import { terminateProcess } from "../../base/running-process.ts";
import { CaddyAdmin } from "./caddy-admin.ts";
import type { CaddyConfig } from "./caddy-config.ts";
import { type CaddyHost, caddyEnvironment, type IngressPaths } from "./caddy-host.ts";
import { parseCaddyVersion } from "./caddy-version.ts";
import { assertPortsFree } from "./port-check.ts";

/** The time limit of `caddy validate`, which takes far less than a second for hundreds of routes. */
const CHECK_LIMIT_MS = 30_000;
const STOP_LIMIT_MS = 5_000;

/** Returns the first executable `caddy` of the search path; undefined if there is none. */
export async function findCaddy(searchPath: string): Promise<string | undefined> {
  const folders = searchPath.split(delimiter).filter((folder) => isAbsolute(folder));
  for (const folder of folders) {
    const file = join(folder, "caddy");
    if (await isExecutable(file)) return file;
  }
  return undefined;
}

export interface CaddyProcessOptions {
  readonly program: string;
  readonly paths: IngressPaths;
  readonly clock: Clock;
  readonly httpPort: number | undefined;
  readonly httpsPort: number | undefined;
  /** Environment variables for Caddy (PATH, proxies); this class itself sets HOME and the XDG folders. */
  readonly environment?: Readonly<Record<string, string>>;
}

/**
 * Caddy as a process in its own process group. It keeps running when Berth exits or is killed, because its
 * configuration file and the route table contain everything that it needs. The next Berth process adopts it.
 */
export class CaddyProcess implements CaddyHost {
  readonly mode = "process";
  onExit: () => void = () => {};
  readonly #options: CaddyProcessOptions;
  readonly #admin: CaddyAdmin;

  constructor(options: CaddyProcessOptions) {
    this.#options = options;
    this.#admin = new CaddyAdmin(options.paths.adminSocket);
  }

  async version(signal: AbortSignal): Promise<string | undefined> {
    const { output } = await this.#run(["version"], signal);
    return parseCaddyVersion(output);
  }

  async isRunning(signal: AbortSignal): Promise<boolean> {
    return (await this.#findPid()) !== undefined || this.#admin.isAnswering(signal);
  }

  /** Returns true: Caddy as a process has no settings outside of its configuration, which the loader compares. */
  isUpToDate(): Promise<boolean> {
    return Promise.resolve(true);
  }

  assertPortsAvailable(ports: readonly number[]): Promise<void> {
    return assertPortsFree(ports, this.#options.httpPort);
  }

  async start(config: CaddyConfig, signal: AbortSignal): Promise<void> {
    const { paths, httpPort, httpsPort } = this.#options;
    if (await this.isRunning(signal)) return;
    await this.assertPortsAvailable([httpPort, httpsPort].filter((port) => port !== undefined));
    await rm(paths.adminSocket, { force: true });
    await writeAtomically(paths.configFile, JSON.stringify(config));
    await this.#spawn();
  }

  async validate(config: CaddyConfig, signal: AbortSignal): Promise<string | undefined> {
    const file = join(this.#options.paths.folder, "check.json");
    await writeAtomically(file, JSON.stringify(config));
    try {
      const { ok, output } = await this.#run(["validate", "--config", file], signal);
      return ok ? undefined : parseLastError(output);
    } finally {
      await rm(file, { force: true });
    }
  }

  async stop(signal: AbortSignal): Promise<void> {
    await this.#admin.stop(signal);
    const pid = await this.#findPid();
    if (pid !== undefined) {
      const isRunning = async () => (await this.#findPid()) === pid;
      const limits = { graceMs: STOP_LIMIT_MS, killMs: STOP_LIMIT_MS };
      await terminateProcess(pid, { clock: this.#options.clock, ...limits, isRunning }, signal);
    }
    await rm(this.#pidFile, { force: true });
  }

  /** Starts Caddy. Caddy logs to a file, and rotates this file itself; stderr goes to another file. */
  async #spawn(): Promise<void> {
    const { program, paths } = this.#options;
    const output = await open(join(paths.folder, "caddy.out"), "w", 0o600);
    try {
      const child = spawn(program, ["run", "--config", paths.configFile], {
        cwd: paths.folder,
        detached: true,
        stdio: ["ignore", output.fd, output.fd],
        env: this.#environment(),
      });
      await new Promise<void>((resolve, reject) => {
        child.once("spawn", resolve);
        child.once("error", (cause) => reject(startError("Caddy cannot be started", cause)));
      });
      child.once("exit", () => this.onExit());
      child.unref();
      await writeFile(this.#pidFile, `${child.pid}\n`, { mode: 0o600 });
    } finally {
      await output.close();
    }
  }

  /**
   * Finds the process id of a running Caddy of this folder. Its command line is checked, because another process may
   * have the id now.
   */
  async #findPid(): Promise<number | undefined> {
    try {
      const pid = Number(await readFile(this.#pidFile, "utf8"));
      if (!Number.isSafeInteger(pid) || pid <= 1) return undefined;
      const args = (await readFile(`/proc/${pid}/cmdline`, "utf8")).split("\0");
      return args.includes(this.#options.paths.configFile) ? pid : undefined;
    } catch {
      return undefined;
    }
  }

  #run(
    args: readonly string[],
    signal: AbortSignal,
  ): Promise<{ readonly ok: boolean; readonly output: string }> {
    return new Promise((resolve, reject) => {
      execFile(
        this.#options.program,
        args,
        {
          env: this.#environment(),
          signal,
          timeout: CHECK_LIMIT_MS,
          killSignal: "SIGKILL",
          maxBuffer: 16 * 1024 * 1024,
        },
        (error, stdout, stderr) => {
          if (signal.aborted) reject(signal.reason);
          else if (error && typeof error.code !== "number")
            reject(startError("Caddy cannot be run", error));
          else resolve({ ok: error === null, output: `${stdout}\n${stderr}` });
        },
      );
    });
  }

  #environment(): Record<string, string> {
    const { environment, paths } = this.#options;
    return { ...environment, ...caddyEnvironment(paths.folder) };
  }

  get #pidFile(): string {
    return join(this.#options.paths.folder, "caddy.pid");
  }
}

/** Returns Caddy's error message, which follows its log lines. */
export function parseLastError(output: string): string {
  const lines = output.trim().split("\n");
  const line = lines.findLast((text) => /^Error: /i.test(text)) ?? lines.at(-1) ?? "";
  return line.replace(/^Error: /i, "");
}

function startError(message: string, cause: Error): BerthError {
  const isGone = "code" in cause && cause.code === "ENOENT";
  return isGone
    ? new BerthError("internal", "caddy is no longer installed on this machine", {
        hint: "install Caddy (apt install caddy), or start Berth with --ingress off",
        cause,
      })
    : new BerthError("internal", message, { cause });
}

async function isExecutable(file: string): Promise<boolean> {
  try {
    await access(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
