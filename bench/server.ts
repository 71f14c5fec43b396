import { type ChildProcess, spawn } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { freePorts } from "../test/support/free-port.ts";

export interface BenchServerOptions {
  /** The ingress of the server. By default there is none, and containers have published ports. */
  readonly ingress?: "process";
  /** If true, the assistant runs too, on a free port. */
  readonly assistant?: boolean;
  /** Additional environment variables. */
  readonly environment?: Readonly<Record<string, string>>;
}

/** A Berth server for one benchmark, with its own data directory, specs folder and port. */
export class BenchServer implements AsyncDisposable {
  readonly specsDir: string;
  readonly api: string;
  readonly pid: number;
  readonly instance: string;
  /** The port of the ingress, or 0 if there is none. */
  readonly ingressPort: number;
  readonly #process: ChildProcess;
  readonly #root: string;
  readonly #token: string;

  private constructor(
    process: ChildProcess,
    root: string,
    ready: { api: string; instance: string; pid: number },
    token: string,
    ingressPort: number,
  ) {
    this.#process = process;
    this.#root = root;
    this.#token = token;
    this.specsDir = join(root, "specs");
    this.api = ready.api;
    this.instance = ready.instance;
    this.pid = ready.pid;
    this.ingressPort = ingressPort;
  }

  static async start(
    dockerHost: string,
    { ingress, assistant = false, environment = {} }: BenchServerOptions = {},
  ): Promise<BenchServer> {
    const root = await mkdtemp(join(tmpdir(), "berth-bench-"));
    const [ingressPort = 0] = ingress ? await freePorts(1) : [];
    await mkdir(join(root, "specs"));
    const child = spawn(
      process.execPath,
      [
        join(import.meta.dirname, "../bin/berth"),
        "up",
        ...(assistant
          ? ["--assistant=on", "--assistant-port=0", "--companion=off"]
          : ["--assistant=off"]),
        "--no-summary",
        "--data-dir",
        join(root, "data"),
        "--specs-dir",
        join(root, "specs"),
        "--listen",
        "127.0.0.1:0",
        "--docker-host",
        dockerHost,
        ...(ingress
          ? [`--ingress=${ingress}`, `--http-port=${ingressPort}`, "--https-port=0"]
          : ["--ingress=off"]),
        "--log-format",
        "json",
        "--log-level",
        "error",
      ],
      { stdio: ["ignore", "pipe", "inherit"], env: { ...process.env, ...environment } },
    );
    for await (const line of createInterface({ input: child.stdout })) {
      if (!line.startsWith("berth ready ")) continue;
      const ready = JSON.parse(line.slice("berth ready ".length)) as {
        api: string;
        instance: string;
        pid: number;
      };
      const token = (await readFile(join(root, "data", "run", "token"), "utf8")).trim();
      child.stdout.resume();
      return new BenchServer(child, root, ready, token, ingressPort);
    }
    throw new Error("berth up ended before it was ready");
  }

  async get<T>(path: string): Promise<T> {
    const response = await fetch(`${this.api}${path}`, {
      headers: { authorization: `Bearer ${this.#token}` },
    });
    if (!response.ok)
      throw new Error(`GET ${path} answered ${response.status}: ${await response.text()}`);
    return (await response.json()) as T;
  }

  /** Sends a POST request. Throws an error with the response body if the status is not a success. */
  async post(path: string, body?: object): Promise<unknown> {
    const response = await fetch(`${this.api}${path}`, {
      method: "POST",
      headers: { ...this.headers, ...(body && { "content-type": "application/json" }) },
      ...(body && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`POST ${path} answered ${response.status}: ${text}`);
    return JSON.parse(text);
  }

  /** Waits until the assistant is ready, and returns its URL. */
  async assistantUrl(): Promise<string> {
    for (;;) {
      const { assistant } = await this.get<{ assistant: { url: string | null } }>(
        "/api/system/info",
      );
      if (assistant.url !== null) return assistant.url;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }

  /** The path of the assistant's control socket. */
  get controlSocket(): string {
    return join(this.#root, "data/assistant/run/control.sock");
  }

  get headers(): Record<string, string> {
    return { authorization: `Bearer ${this.#token}` };
  }

  /** Waits until `count` apps are Ready. Follows the event stream and polls ten times a second. */
  async untilReady(count: number, limitMs: number): Promise<void> {
    const end = Date.now() + limitMs;
    while (Date.now() < end) {
      const { apps } = await this.get<{
        apps: { ready: boolean; name: string; message: string }[];
      }>("/api/apps?limit=1000");
      if (apps.filter((app) => app.ready).length >= count) return;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    const { apps } = await this.get<{ apps: { ready: boolean; name: string; message: string }[] }>(
      "/api/apps?limit=1000",
    );
    const late = apps.filter((app) => !app.ready).map((app) => `${app.name}: ${app.message}`);
    throw new Error(`${count} apps were not Ready within ${limitMs} ms: ${late.join("; ")}`);
  }

  /** Returns the number of engine calls since the start for each kind of call, from /metrics. */
  async engineCalls(): Promise<Map<string, number>> {
    const text = await (await fetch(`${this.api}/metrics`)).text();
    const calls = new Map<string, number>();
    for (const match of text.matchAll(/^berth_engine_calls_total\{call="(\w+)"\} (\d+)$/gm))
      calls.set(match[1] ?? "", Number(match[2]));
    return calls;
  }

  /** Returns the sum of the metrics with these names. */
  async metric(...names: readonly string[]): Promise<number> {
    const text = await (await fetch(`${this.api}/metrics`)).text();
    return names.reduce(
      (sum, name) => sum + Number(new RegExp(`^${name} (\\S+)$`, "m").exec(text)?.[1]),
      0,
    );
  }

  async residentMegabytes(): Promise<number> {
    const status = await readFile(`/proc/${this.pid}/status`, "utf8");
    return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) / 1000;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = new Promise((resolve) => this.#process.once("exit", resolve));
    this.#process.kill("SIGTERM");
    await ended;
    await this.#endCaddy();
    await rm(this.#root, { recursive: true, force: true });
  }

  /** Returns the process id of the ingress's Caddy, or 0 if there is none. */
  async readCaddyPid(): Promise<number> {
    const file = join(this.#root, "data", "ingress", "caddy.pid");
    return Number(await readFile(file, "utf8").catch(() => ""));
  }

  /** Returns the configuration file that Caddy loaded last. */
  async readCaddyConfig(): Promise<string> {
    return readFile(join(this.#root, "data", "ingress", "caddy.json"), "utf8");
  }

  /** Stops Caddy, because Caddy keeps running when Berth stops. */
  async #endCaddy(): Promise<void> {
    const pid = await this.readCaddyPid();
    if (Number.isSafeInteger(pid) && pid > 1) process.kill(pid, "SIGKILL");
  }
}
