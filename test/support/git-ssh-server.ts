import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import os from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { which } from "../../scripts/engine.mjs";
import { GitRepositories } from "./git-repositories.ts";

const START_LIMIT_MS = 20_000;

/**
 * Real git repositories behind a real sshd on a loopback port, with its own host and user keys. It accepts only the
 * user who runs the tests, and only with `privateKey`.
 */
export class SshGitServer implements AsyncDisposable {
  readonly repositories: GitRepositories;
  readonly port: number;
  /** The files of two private keys: the server accepts `privateKey`, and refuses `strangerKey`. */
  readonly privateKey: string;
  readonly strangerKey: string;
  /** The lines of a known_hosts file that name this server. */
  readonly knownHosts: string;
  readonly #dir: string;
  #child: ChildProcess;

  static async start(): Promise<SshGitServer> {
    const program = which("sshd");
    if (!program)
      throw new Error(
        "the tests fetch from an sshd of their own: apt-get install openssh-server (npm test does that on Debian as root)",
      );
    // sshd refuses to start without the empty folder /run/sshd, which systemd would create for the service ssh.
    if (process.getuid?.() === 0) await mkdir("/run/sshd", { recursive: true });
    const dir = await mkdtemp(path.join(os.tmpdir(), "berth-sshd-"));
    try {
      await chmod(dir, 0o755);
      await mkdir(path.join(dir, "repositories"));
      for (const key of ["host", "user", "stranger"]) makeKey(path.join(dir, key));
      const { child, port } = await listening(program, dir);
      const read = (name: string) => readFile(path.join(dir, name), "utf8");
      const hostKey = (await read("host.pub")).trim();
      return new SshGitServer(dir, child, port, {
        privateKey: await read("user"),
        strangerKey: await read("stranger"),
        knownHosts: `[127.0.0.1]:${port} ${hostKey}\n`,
      });
    } catch (error) {
      await rm(dir, { recursive: true, force: true });
      throw error;
    }
  }

  private constructor(
    dir: string,
    child: ChildProcess,
    port: number,
    keys: { privateKey: string; strangerKey: string; knownHosts: string },
  ) {
    this.#dir = dir;
    this.#child = child;
    this.port = port;
    this.privateKey = keys.privateKey;
    this.strangerKey = keys.strangerKey;
    this.knownHosts = keys.knownHosts;
    this.repositories = new GitRepositories(path.join(dir, "repositories"));
  }

  /** Returns `ssh://USER@127.0.0.1:PORT/…/NAME.git`. */
  url(name: string): string {
    const user = os.userInfo().username;
    return `ssh://${user}@127.0.0.1:${this.port}${this.repositories.path(name)}`;
  }

  /** Gives the server another host key at the same address, as if another server answered there. */
  async changeHostKey(): Promise<void> {
    await ended(this.#child);
    const host = path.join(this.#dir, "host");
    await rm(host);
    await rm(`${host}.pub`);
    makeKey(host);
    this.#child = (await listening(which("sshd") ?? "sshd", this.#dir, this.port)).child;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await ended(this.#child);
    await rm(this.#dir, { recursive: true, force: true });
  }
}

function makeKey(file: string): void {
  const made = spawnSync("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", file]);
  if (made.status !== 0) throw new Error(`ssh-keygen: ${String(made.stderr)}`);
}

/** Resolves when sshd listens. Another program may take the free port first; then another port is tried. */
async function listening(
  program: string,
  dir: string,
  fixedPort?: number,
): Promise<{ child: ChildProcess; port: number }> {
  for (let attempt = 1; ; attempt++) {
    const port = fixedPort ?? (await freePort());
    const config = path.join(dir, "sshd_config");
    await writeFile(config, settings(dir, port));
    // sshd starts itself again for each connection, so `program` has to be its full path.
    const child = spawn(program, ["-D", "-e", "-f", config], {
      stdio: ["ignore", "ignore", "pipe"],
    });
    try {
      await listens(child);
      return { child, port };
    } catch (error) {
      await ended(child);
      if (attempt === 5) throw error;
    }
  }
}

function settings(dir: string, port: number): string {
  return [
    `Port ${port}`,
    "ListenAddress 127.0.0.1",
    `HostKey ${path.join(dir, "host")}`,
    `AuthorizedKeysFile ${path.join(dir, "user.pub")}`,
    "PidFile none",
    "StrictModes no",
    "UsePAM no",
    "PasswordAuthentication no",
    "KbdInteractiveAuthentication no",
    "PermitRootLogin prohibit-password",
    "UseDNS no",
    "",
  ].join("\n");
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() => resolve(typeof address === "object" && address ? address.port : 0));
    });
  });
}

function listens(child: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    const seen: string[] = [];
    const fail = (why: string) =>
      reject(new Error(`sshd did not start: ${why}\n${seen.join("\n")}`));
    const timer = setTimeout(() => fail("it took too long"), START_LIMIT_MS);
    child.once("error", (error) => fail(error.message));
    child.once("exit", (code) => {
      clearTimeout(timer);
      fail(`it ended with ${code}`);
    });
    if (!child.stderr) return fail("its log cannot be read");
    createInterface({ input: child.stderr }).on("line", (line) => {
      if (line.includes("Server listening")) {
        clearTimeout(timer);
        resolve();
      } else if (seen.length < 50) seen.push(line);
    });
  });
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return;
  const exit = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGKILL");
  await exit;
}
