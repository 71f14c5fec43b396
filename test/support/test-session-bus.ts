import { type ChildProcess, type SpawnOptions, spawn } from "node:child_process";
import { once } from "node:events";
import { chown, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { killProcess, processesWith } from "./processes.ts";

/** The exit code and the output of a client program. */
export interface ClientRun {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface SessionBusOptions {
  /**
   * The contents of activation files, by the bus name that each file activates; the file is called
   * `<bus name>.service`.
   */
  readonly services?: Readonly<Record<string, string>>;
  /** The environment of programs that the bus starts, in addition to PATH. */
  readonly environment?: Readonly<Record<string, string>>;
  /** Elements `<limit name="…">` for the configuration of dbus-daemon, in addition to its default limits. */
  readonly limits?: Readonly<Record<string, number>>;
  /** The id of the user that runs the bus, which requires root. Every user may connect to such a bus. */
  readonly user?: number;
  /**
   * If true, the bus runs in a process namespace of its own, which requires root. It then cannot name the processes of
   * its clients.
   */
  readonly isBlindToProcesses?: boolean;
}

/**
 * A private session bus: a real dbus-daemon for one test, with standard clients that run against it. The machine's
 * own buses are not used.
 */
export class TestSessionBus implements AsyncDisposable {
  /** The address in the form `unix:path=…,guid=…`. */
  readonly address: string;
  /** The environment with which a program finds this bus and no other bus. */
  readonly environment: Readonly<Record<string, string>>;
  readonly #dir: string;
  readonly #daemon: ChildProcess;
  readonly #monitors = new Set<ChildProcess>();

  static async start(options: SessionBusOptions = {}): Promise<TestSessionBus> {
    const dir = await mkdtemp(path.join(os.tmpdir(), "berth-bus-"));
    const services = path.join(dir, "services");
    await mkdir(services);
    for (const [name, text] of Object.entries(options.services ?? {})) {
      await writeFile(path.join(services, name), text);
    }
    const config = path.join(dir, "bus.conf");
    await writeFile(config, buildConfig(dir, services, options));
    if (options.user !== undefined) await chown(dir, options.user, options.user);
    const args = [`--config-file=${config}`, "--nofork", "--nopidfile", "--print-address=1"];
    const spawnOptions: SpawnOptions = {
      stdio: ["ignore", "pipe", "pipe"],
      env: { PATH: process.env["PATH"], LC_ALL: "C", ...options.environment },
      ...(options.user === undefined ? {} : { uid: options.user, gid: options.user }),
    };
    const wrapper = ["--pid", "--fork", "--kill-child", "dbus-daemon"];
    const daemon = options.isBlindToProcesses
      ? spawn("unshare", [...wrapper, ...args], spawnOptions)
      : spawn("dbus-daemon", args, spawnOptions);
    let complaint = "";
    daemon.stderr?.setEncoding("utf8").on("data", (text: string) => {
      complaint += text;
    });
    const line = await Promise.race([
      firstLine(daemon),
      once(daemon, "close").then(() => {
        throw new Error(`dbus-daemon did not start: ${complaint}`);
      }),
    ]);
    return new TestSessionBus(dir, daemon, line);
  }

  private constructor(dir: string, daemon: ChildProcess, address: string) {
    this.#dir = dir;
    this.#daemon = daemon;
    this.address = address;
    this.environment = { DBUS_SESSION_BUS_ADDRESS: address, XDG_RUNTIME_DIR: dir };
  }

  get pid(): number {
    if (this.#daemon.pid === undefined) throw new Error("dbus-daemon does not run");
    return this.#daemon.pid;
  }

  /** Kills the bus with SIGKILL, as a crash would end it; `[Symbol.asyncDispose]` still cleans up. */
  async kill(): Promise<void> {
    await terminate(this.#daemon, "SIGKILL");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const monitor of this.#monitors) await terminate(monitor, "SIGTERM");
    // The bus may run as a child of the program unshare, which ignores SIGTERM.
    const isWrapped = this.#daemon.spawnfile !== "dbus-daemon";
    await terminate(this.#daemon, isWrapped ? "SIGKILL" : "SIGTERM");
    // A program that the bus has started but that is not connected yet would not exit with the bus, so it is killed.
    const starter = `DBUS_STARTER_ADDRESS=unix:path=${this.#dir}/`;
    for (const pid of await processesWith(starter)) killProcess(pid);
    await rm(this.#dir, { recursive: true, force: true });
  }

  /**
   * Adds an activation file, `<name>.service`; programs that the bus starts afterwards also have the variables of
   * `environment`.
   */
  async install(
    file: string,
    text: string,
    environment: Readonly<Record<string, string>>,
  ): Promise<void> {
    const bus = ["org.freedesktop.DBus", "/org/freedesktop/DBus"] as const;
    const pairs = Object.entries({ ...this.environment, ...environment });
    const dictionary = `{${pairs.map(([key, value]) => `'${key}': '${value}'`).join(", ")}}`;
    await this.gdbusCall(...bus, "org.freedesktop.DBus.UpdateActivationEnvironment", dictionary);
    await writeFile(path.join(this.#dir, "services", file), text);
    await this.gdbusCall(...bus, "org.freedesktop.DBus.ReloadConfig");
  }

  /** Runs a program with this bus as its session bus. */
  async run(program: string, args: readonly string[], input = ""): Promise<ClientRun> {
    const child = spawn(program, args, {
      env: { PATH: process.env["PATH"], LC_ALL: "C", ...this.environment },
      stdio: ["pipe", "pipe", "pipe"],
    });
    const output = { stdout: "", stderr: "" };
    for (const name of ["stdout", "stderr"] as const) {
      child[name].setEncoding("utf8").on("data", (text: string) => {
        output[name] += text;
      });
    }
    child.stdin.on("error", () => {}).end(input); // The program may exit without reading its input.
    const code = await new Promise<number | null>((resolve, reject) => {
      child.once("error", reject).once("close", resolve);
    });
    return { code, ...output };
  }

  /** Runs `gdbus call`; `member` includes its interface. The answer is GVariant text: `('berth 0.1.0',)`. */
  async gdbusCall(
    name: string,
    object: string,
    member: string,
    ...args: readonly string[]
  ): Promise<string> {
    const target = ["--session", "--dest", name, "--object-path", object, "--method", member];
    // The argument `--` permits later arguments that begin with a minus.
    return getOutput(await this.run("gdbus", ["call", ...target, "--", ...args]));
  }

  async gdbusIntrospect(name: string, object: string): Promise<string> {
    const target = ["--session", "--dest", name, "--object-path", object];
    return getOutput(await this.run("gdbus", ["introspect", ...target, "--xml"]));
  }

  /** Returns the out arguments in busctl's JSON form. */
  async busctlCall(
    name: string,
    object: string,
    iface: string,
    member: string,
    signature = "",
    ...args: readonly string[]
  ): Promise<readonly unknown[]> {
    const typed = signature === "" ? [] : [signature, "--", ...args];
    const value = await this.#busctl(["call", name, object, iface, member, ...typed]);
    const isAnswer = typeof value === "object" && value !== null && "data" in value;
    return isAnswer && Array.isArray(value.data) ? value.data : [];
  }

  async busctlProperty(
    name: string,
    object: string,
    iface: string,
    property: string,
  ): Promise<unknown> {
    const value = await this.#busctl(["get-property", name, object, iface, property]);
    return typeof value === "object" && value !== null && "data" in value ? value.data : undefined;
  }

  /** Records the signals of a bus name with `gdbus monitor`, from the moment when the promise resolves. */
  async monitor(name: string): Promise<BusMonitor> {
    const child = spawn("gdbus", ["monitor", "--session", "--dest", name], {
      env: { PATH: process.env["PATH"], LC_ALL: "C", ...this.environment },
      stdio: ["ignore", "pipe", "inherit"],
    });
    this.#monitors.add(child);
    const monitor = new BusMonitor(child);
    await monitor.line(/is owned by|does not have an owner/);
    return monitor;
  }

  async #busctl(args: readonly string[]): Promise<unknown> {
    const out = await this.run("busctl", [`--address=${this.address}`, "--json=short", ...args]);
    const text = getOutput(out);
    return text === "" ? undefined : JSON.parse(text);
  }
}

/** An error reply in the form in which a client program has reported it. */
export class BusClientError extends Error {
  /** The D-Bus name of the error; undefined if the program does not report it (busctl prints only the text). */
  readonly busName: string | undefined;
  readonly text: string;

  constructor(text: string) {
    super(text);
    this.name = "BusClientError";
    this.text = text;
    this.busName = /GDBus\.Error:([\w.]+)/.exec(text)?.[1];
  }
}

/** The output of `gdbus monitor`: one line for each signal, `/path: iface.Member (args)`. */
export class BusMonitor implements AsyncDisposable {
  readonly lines: string[] = [];
  readonly #child: ChildProcess;
  readonly #waiting = new Set<() => void>();

  constructor(child: ChildProcess) {
    this.#child = child;
    if (!child.stdout) throw new Error("its output is not read");
    createInterface({ input: child.stdout }).on("line", (line) => {
      this.lines.push(line);
      for (const look of this.#waiting) look();
    });
  }

  /** Resolves to the first line that matches, even if it was printed before the call. */
  line(pattern: RegExp, timeoutMs = 10_000): Promise<string> {
    return new Promise((resolve, reject) => {
      const stop = () => {
        clearTimeout(timer);
        this.#waiting.delete(look);
      };
      const timer = setTimeout(() => {
        stop();
        reject(new Error(`no signal ${pattern} in ${JSON.stringify(this.lines)}`));
      }, timeoutMs);
      const look = () => {
        const found = this.lines.find((line) => pattern.test(line));
        if (found === undefined) return;
        stop();
        resolve(found);
      };
      this.#waiting.add(look);
      look();
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await terminate(this.#child, "SIGTERM");
  }
}

function getOutput(run: ClientRun): string {
  if (run.code !== 0) throw new BusClientError(run.stderr.trim());
  return run.stdout.trim();
}

async function firstLine(daemon: ChildProcess): Promise<string> {
  if (!daemon.stdout) throw new Error("its output is not read");
  for await (const line of createInterface({ input: daemon.stdout })) return line;
  return await new Promise<never>(() => {}); // The process has exited, which its exit event reports.
}

async function terminate(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const closed = once(child, "exit");
  child.kill(signal);
  await closed;
}

/** Returns a session.conf like the one that D-Bus ships: it permits everything, and its limits are high. */
function buildConfig(
  dir: string,
  services: string,
  { limits, user }: Pick<SessionBusOptions, "limits" | "user">,
): string {
  const all: Record<string, number> = {
    max_incoming_bytes: 1_000_000_000,
    max_incoming_unix_fds: 250_000_000,
    max_outgoing_bytes: 1_000_000_000,
    max_outgoing_unix_fds: 250_000_000,
    max_message_size: 1_000_000_000,
    service_start_timeout: 30_000,
    auth_timeout: 240_000,
    pending_fd_timeout: 150_000,
    max_completed_connections: 100_000,
    max_incomplete_connections: 10_000,
    max_connections_per_user: 100_000,
    max_pending_service_starts: 10_000,
    max_names_per_connection: 50_000,
    max_match_rules_per_connection: 50_000,
    max_replies_per_connection: 50_000,
    ...limits,
  };
  return `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>session</type>
  <keep_umask/>
  <listen>unix:path=${dir}/bus</listen>
  <auth>EXTERNAL</auth>
  <servicedir>${services}</servicedir>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
    <allow own="*"/>${user === undefined ? "" : '\n    <allow user="*"/>'}
  </policy>
${Object.entries(all)
  .map(([name, value]) => `  <limit name="${name}">${value}</limit>`)
  .join("\n")}
</busconfig>
`;
}
