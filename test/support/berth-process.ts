import { type ChildProcess, spawn } from "node:child_process";
import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";
import type Docker from "dockerode";
import { onTestFailed } from "vitest";
import { type Client, createClient } from "../../src/client/rest/client.ts";
import { INSTANCE } from "../../src/controller/labels.ts";
import type { AppSpec } from "../../src/resources/app-spec.ts";
import type { Kind } from "../../src/resources/kinds.ts";
import type { AppDetails, ConditionView } from "../../src/resources/wire/apps.ts";
import { dockerClient, dockerHost } from "./engine.ts";
import { sweep, trackInstance } from "./engine-runs.ts";
import { descendantsOf, isProcessAlive, killProcess, processesNaming } from "./processes.ts";

const program = join(import.meta.dirname, "../../bin/berth");
/**
 * The time limit for a start of Berth. A start takes a second or two, and several times as long on a machine that runs
 * all tests concurrently.
 */
const START_LIMIT_MS = 60_000;
const WAIT_LIMIT_MS = 60_000;
const POLL_MS = 80;
const LOG_LINES_SHOWN = 60;

/** The content of the line `berth ready {json}` and of the file `run/berth.json`. */
export interface ReadyInfo {
  readonly api: string;
  readonly specs_dir: string;
  readonly data_dir: string;
  readonly instance: string;
  readonly pid: number;
  readonly version: string;
  readonly docker_host: string;
}

export interface ExitResult {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface BerthOptions {
  /**
   * The address of the engine; by default, the tests' engine. If it is a function, it receives the folder that
   * contains all files of this Berth.
   */
  readonly dockerHost?: string | ((root: string) => string);
  readonly env?: Readonly<Record<string, string>>;
  readonly flags?: readonly string[];
  /** The ingress of the apps; by default there is none, so that the apps are published on loopback ports. */
  readonly ingress?: "process" | "container";
  /**
   * If true, the assistant starts too, on a free port. It is off by default, so that concurrent tests share no port.
   */
  readonly assistant?: boolean;
  /** The spec files by name, written before the first start. */
  readonly specs?: Readonly<Record<string, string>>;
  /** If false, `open` does not start Berth, and the test starts it later. */
  readonly start?: boolean;
  /** A client of the engine that `dockerHost` names, if that is not the tests' engine. */
  readonly docker?: Docker;
  /** The function `onTestFailed` of the test's context. Concurrent tests must set this option. */
  readonly onTestFailed?: (listener: () => void) => void;
}

/**
 * One Berth server: `bin/berth up` as a process, with its own data directory, specs folder and home folder. It can
 * be killed, ended and started again on the same directories. Its disposal removes its objects on the engine. When a
 * test fails, the end of the server's log is shown.
 */
export class BerthProcess implements AsyncDisposable {
  readonly root: string;
  readonly dataDir: string;
  readonly specsDir: string;
  readonly home: string;
  readonly docker: Docker;
  readonly #options: BerthOptions;
  readonly #log: string[] = [];
  readonly #instances = new Set<string>();
  #child: ChildProcess | undefined;
  #ready: ReadyInfo | undefined;
  #client: Client | undefined;

  #ingressPort = 0;

  static async open(options: BerthOptions = {}): Promise<BerthProcess> {
    const root = await mkdtemp(join(tmpdir(), "berth-e2e-"));
    const berth = new BerthProcess(root, options);
    await mkdir(berth.specsDir);
    await mkdir(berth.home);
    if (options.ingress) berth.#ingressPort = await freePort();
    for (const [name, text] of Object.entries(options.specs ?? {})) await berth.write(name, text);
    (options.onTestFailed ?? onTestFailed)(() => void process.stderr.write(`${berth.log()}\n`));
    if (options.start === false) return berth;
    try {
      await berth.start();
    } catch (error) {
      await berth[Symbol.asyncDispose]();
      throw error;
    }
    return berth;
  }

  private constructor(root: string, options: BerthOptions) {
    this.root = root;
    this.dataDir = join(root, "data");
    this.specsDir = join(root, "specs");
    this.home = join(root, "home");
    this.docker = options.docker ?? dockerClient();
    this.#options = options;
  }

  get dockerHost(): string {
    const host = this.#options.dockerHost ?? dockerHost();
    return typeof host === "string" ? host : host(this.root);
  }

  get ready(): ReadyInfo {
    if (!this.#ready) throw new Error("berth has not been started");
    return this.#ready;
  }

  /** A REST client with the local admin token. */
  get client(): Client {
    if (!this.#client) throw new Error("berth has not been started");
    return this.#client;
  }

  get instance(): string {
    return this.ready.instance;
  }

  /** The output of the server on both streams, over all of its starts. */
  get output(): string {
    return this.#log.join("\n");
  }

  /** Starts the server with `env` in addition to its usual environment, and waits for its ready line. */
  async start(env: Readonly<Record<string, string>> = {}): Promise<ReadyInfo> {
    if (this.#child) throw new Error("berth runs already");
    const child = spawn(process.execPath, [program, "up", ...this.upFlags()], {
      cwd: this.root,
      env: this.environment(env),
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#child = child;
    running.add(child);
    child.once("exit", () => running.delete(child));
    const line = await new Promise<string>((resolve, reject) => {
      const late = setTimeout(() => reject(this.#failure("no ready line in time")), START_LIMIT_MS);
      child.once("exit", (code, signal) => {
        clearTimeout(late);
        reject(this.#failure(`it ended with ${code ?? signal} before it was ready`));
      });
      for (const [name, stream] of [
        ["out", child.stdout],
        ["err", child.stderr],
      ] as const) {
        if (!stream) throw new Error("a stream of berth is missing");
        createInterface({ input: stream }).on("line", (text) => {
          this.#log.push(text);
          if (name !== "out" || !text.startsWith("berth ready ")) return;
          clearTimeout(late);
          resolve(text.slice("berth ready ".length));
        });
      }
    });
    const ready: ReadyInfo = JSON.parse(line);
    this.#ready = ready;
    this.#instances.add(ready.instance);
    if (!this.#options.docker) await trackInstance(ready.instance);
    const token = (await readFile(join(this.dataDir, "run/token"), "utf8")).trim();
    this.#client = createClient({ baseUrl: ready.api, token });
    return ready;
  }

  /** The port on which the ingress accepts requests. */
  get ingressPort(): number {
    if (this.#ingressPort === 0) throw new Error("this berth has no ingress");
    return this.#ingressPort;
  }

  /** The process id of the server's Caddy; undefined if none runs. */
  async caddyPid(): Promise<number | undefined> {
    const file = join(this.dataDir, "ingress/caddy.pid");
    const pid = Number.parseInt(await readFile(file, "utf8").catch(() => ""), 10);
    return Number.isInteger(pid) && pid > 1 ? pid : undefined;
  }

  /** The process id of the server's assistant; undefined if none runs. */
  async assistantPid(): Promise<number | undefined> {
    const folder = join(this.dataDir, "assistant");
    const text = await readFile(join(folder, "run/assistant.json"), "utf8").catch(() => "{}");
    const { pid }: { pid?: number } = JSON.parse(text);
    if (pid === undefined) return undefined;
    // The file `assistant.json` outlives the process, and another process may get the same id. So the id counts only if
    // the process's command line contains this assistant's folder.
    const command = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
    return command.includes(folder) ? pid : undefined;
  }

  /** The flags of `berth up`, in the form in which a user would pass them. */
  upFlags(): string[] {
    return [
      `--data-dir=${this.dataDir}`,
      `--specs-dir=${this.specsDir}`,
      `--docker-host=${this.dockerHost}`,
      "--listen=127.0.0.1:0",
      "--log-format=json",
      "--log-level=debug",
      ...this.#ingressFlags(),
      ...(this.#options.assistant === true
        ? ["--assistant=on", "--assistant-port=0"]
        : ["--assistant=off"]),
      ...(this.#options.flags ?? []),
    ];
  }

  #ingressFlags(): string[] {
    const { ingress } = this.#options;
    if (!ingress) return ["--ingress=off"];
    return [`--ingress=${ingress}`, `--http-port=${this.#ingressPort}`, "--https-port=0"];
  }

  /** Returns this process's environment without the settings for the user's own Berth or engine. */
  environment(more: Readonly<Record<string, string>> = {}): Record<string, string> {
    return { ...plainEnvironment(this.home), ...this.#options.env, ...more };
  }

  /** Sends SIGKILL to the server, and waits until the process has exited. */
  async kill(): Promise<void> {
    await this.#end("SIGKILL");
  }

  /** Sends SIGTERM to the server. Returns the milliseconds until the process has exited, and the exit code. */
  async stop(): Promise<number | null> {
    return await this.#end("SIGTERM");
  }

  /** Sends SIGKILL to the server without waiting for its exit; `kill` waits. */
  sendSigkill(): void {
    this.#child?.kill("SIGKILL");
  }

  get isRunning(): boolean {
    const child = this.#child;
    return child !== undefined && child.exitCode === null && child.signalCode === null;
  }

  async #end(signal: "SIGKILL" | "SIGTERM"): Promise<number | null> {
    const child = this.#child;
    if (!child) return null;
    if (this.isRunning) {
      // After a SIGKILL of the server, the assistant may keep running and hold the server's output streams open, so
      // `close` might never be emitted.
      const end = signal === "SIGKILL" ? "exit" : "close";
      const ended = new Promise((resolve) => child.once(end, resolve));
      child.kill(signal);
      await ended;
    }
    this.#child = undefined;
    return child.exitCode;
  }

  /** Runs `berth VERB ...` on this data directory until the command exits. */
  async cli(
    verb: readonly string[],
    options: { input?: string | Buffer; env?: Readonly<Record<string, string>> } = {},
  ): Promise<ExitResult> {
    return runBerth(verb, {
      cwd: this.root,
      env: this.environment({ BERTH_DATA_DIR: this.dataDir, ...options.env }),
      input: options.input,
    });
  }

  /** Saves a file in the specs folder as editors do: writes a temporary file, and renames it. */
  async write(name: string, text: string | Uint8Array): Promise<void> {
    const target = join(this.specsDir, name);
    await mkdir(dirname(target), { recursive: true });
    const draft = join(dirname(target), `.${name.replace(/.*\//, "")}.draft`);
    await writeFile(draft, text);
    await rename(draft, target);
  }

  async remove(name: string): Promise<void> {
    await rm(join(this.specsDir, name));
  }

  app(name: string): Promise<AppDetails> {
    return this.client.apps.get(name);
  }

  /** Waits until the app is Ready for its newest generation and `also` returns true for it, and returns the app. */
  async waitForAppReady(name: string, also: (app: AppDetails) => boolean = () => true) {
    return this.waitForApp(
      name,
      `${name} is Ready`,
      (app) => app.ready && app.observed_generation === app.generation && also(app),
    );
  }

  /** Waits until `is` returns true for the app, and returns the app. */
  async waitForApp(
    name: string,
    what: string,
    is: (app: AppDetails) => boolean,
    limitMs = WAIT_LIMIT_MS,
  ): Promise<AppDetails> {
    let seen: unknown = "there is no such app";
    return this.until(
      what,
      async () => {
        const { apps } = await this.client.apps.list();
        if (!apps.some((item) => item.name === name)) return undefined;
        const app = await this.app(name);
        const { status, message, generation, conditions, containers } = app;
        seen = { status, message, generation, conditions, containers };
        return is(app) ? app : undefined;
      },
      limitMs,
      () => JSON.stringify(seen),
    );
  }

  async waitUntilAppGone(name: string): Promise<void> {
    await this.until(`app ${name} is gone`, async () => {
      const { apps } = await this.client.apps.list();
      return apps.every((app) => app.name !== name) ? true : undefined;
    });
  }

  /** Waits for an event with this reason about the app, or about Berth itself. Returns the event. */
  async event(reason: string, filter: { kind?: Kind; name?: string } = {}) {
    return this.until(`an event ${reason}`, async () => {
      const { events } = await this.client.events.list({ ...filter, limit: 500 });
      return events.find((event) => event.reason === reason);
    });
  }

  /** Lists this instance's containers on the engine, running or not. */
  async containers(app?: string): Promise<Docker.ContainerInfo[]> {
    const label = [`${INSTANCE}=${this.instance}`];
    if (app !== undefined) label.push(`dev.berth.app=${app}`);
    return this.docker.listContainers({ all: true, filters: { label } });
  }

  /** Returns the only container of an app. Throws if there are more, or none. */
  async container(app: string): Promise<Docker.Container & { readonly name: string }> {
    const [one, ...others] = await this.containers(app);
    if (!one || others.length > 0)
      throw new Error(`${app} has ${others.length + (one ? 1 : 0)} containers`);
    return Object.assign(this.docker.getContainer(one.Id), {
      name: (one.Names[0] ?? "").replace(/^\//, ""),
    });
  }

  /** Repeats the query until it returns a value. Fails with the server's log after the time limit. */
  async until<T>(
    what: string,
    ask: () => Promise<T | undefined | false> | T | undefined | false,
    limitMs = WAIT_LIMIT_MS,
    seen: () => string = () => "",
  ): Promise<T> {
    const deadline = Date.now() + limitMs;
    let failure = "";
    for (;;) {
      try {
        const answer = await ask();
        if (answer !== undefined && answer !== false) return answer;
        failure = "";
      } catch (error) {
        failure = String(error);
      }
      if (Date.now() > deadline)
        throw this.#failure(`waited ${limitMs / 1000} s until ${what}; ${failure || seen()}`);
      await pause(POLL_MS);
    }
  }

  log(): string {
    const lines = this.#log.slice(-LOG_LINES_SHOWN).map((line) => line.slice(0, 500));
    return `--- the end of berth's log\n${lines.join("\n")}\n---`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // Children of Berth, such as the companion, may survive the kill of Berth. They are listed before the kill, so that
    // they can be killed afterwards.
    const pid = this.isRunning ? this.#child?.pid : undefined;
    const started = pid === undefined ? [] : await descendantsOf(pid);
    await this.kill();
    // An assistant that is still starting has not reported its process id, so its command line identifies it.
    const assistants = await processesNaming(join(this.dataDir, "assistant"));
    const caddy = await this.caddyPid();
    const left = [...(caddy === undefined ? [] : [caddy]), ...assistants, ...started];
    for (const process of left) killProcess(process);
    // The test waits until the killed processes have exited, because they write to the folders that are removed next.
    while (left.some(isProcessAlive)) await pause(10);
    if (!this.#options.docker)
      for (const instance of this.#instances) await sweep(this.docker, `${INSTANCE}=${instance}`);
    await rm(this.root, { recursive: true, force: true });
  }

  #failure(why: string): Error {
    return new Error(`berth: ${why}\n${this.log()}`);
  }
}

/** Returns a port on which no program listens at the moment. */
async function freePort(): Promise<number> {
  const probe = createServer();
  await new Promise<void>((resolve) => probe.listen(0, "127.0.0.1", resolve));
  const address = probe.address();
  await new Promise((resolve) => probe.close(resolve));
  if (typeof address !== "object" || address === null) throw new Error("no port is free");
  return address.port;
}

const running = new Set<ChildProcess>();
process.on("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

/** Runs the command line until it exits. */
export function runBerth(
  words: readonly string[],
  options: {
    readonly cwd: string;
    readonly env: Readonly<Record<string, string>>;
    readonly input?: string | Buffer | undefined;
  },
): Promise<ExitResult> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [program, ...words], {
      cwd: options.cwd,
      env: { ...options.env },
      stdio: ["pipe", "pipe", "pipe"],
    });
    running.add(child);
    const late = setTimeout(() => child.kill("SIGKILL"), START_LIMIT_MS);
    let stdout = "";
    let stderr = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
    child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
    child.stdin.on("error", () => {});
    child.stdin.end(options.input ?? "");
    child.once("error", reject);
    child.once("close", (code) => {
      clearTimeout(late);
      running.delete(child);
      resolve({ code, stdout, stderr });
    });
  });
}

export function plainEnvironment(home: string): Record<string, string> {
  const path = process.env["PATH"] ?? "";
  return { PATH: path, HOME: home, TZ: "UTC", NO_COLOR: "1" };
}

/** Returns a spec file with one App; the text is JSON, which is also valid YAML. */
export function appFile(name: string, spec: AppSpec): string {
  return manifest("App", name, spec);
}

export function secretFile(name: string, data: Readonly<Record<string, string>>): string {
  return manifest("Secret", name, { data });
}

function manifest(kind: Kind, name: string, spec: unknown): string {
  return `${JSON.stringify({ apiVersion: "berth.dev/v1", kind, metadata: { name }, spec }, null, 2)}\n`;
}

export function conditionOf(app: AppDetails, type: string): ConditionView | undefined {
  return app.conditions.find((condition) => condition.type === type);
}

/** Returns the body of a GET request as text; undefined if no server answers. */
export async function fetchText(url: string | null): Promise<string | undefined> {
  if (url === null) return undefined;
  try {
    return await (await fetch(url, { signal: AbortSignal.timeout(5_000) })).text();
  } catch {
    return undefined;
  }
}
