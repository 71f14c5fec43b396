import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import type Docker from "dockerode";
import { which } from "../../scripts/engine.mjs";

/** The only user of a registry with credentials. */
export const REGISTRY_USER = { username: "berth", password: "open sesame" } as const;
/**
 * A file with REGISTRY_USER and a bcrypt hash of the password, the only format that the registry accepts. The hash was
 * created with crypt(3).
 */
const HTPASSWD = "berth:$2b$05$berthberthberthberthbezwhKBA23GMloFiTPKXjyJtyQ.UiziDK";

const START_LIMIT_MS = 30_000;

/** A registry (Debian's docker-registry) on a loopback port, which engines use without TLS. */
export interface TestRegistry extends AsyncDisposable {
  /** The address `127.0.0.1:PORT`, which is the first part of the references of the registry's images. */
  readonly address: string;
  /**
   * Pushes an image that the engine has, and returns its reference in the registry. The engine keeps no tag for that
   * reference.
   */
  push(docker: Docker, image: string, as?: string): Promise<string>;
}

/** Starts a registry with its own storage. With `credentials`, it requires those of REGISTRY_USER. */
export async function startRegistry(
  options: { credentials?: boolean } = {},
): Promise<TestRegistry> {
  const program = which("docker-registry");
  if (!program)
    throw new Error(
      "the tests pull from a registry of their own: apt-get install docker-registry (npm test does that on Debian as root)",
    );
  const dir = await mkdtemp(path.join(os.tmpdir(), "berth-registry-"));
  const htpasswd = path.join(dir, "htpasswd");
  await writeFile(htpasswd, `${HTPASSWD}\n`);
  const config = {
    version: 0.1,
    log: { level: "info", formatter: "json" },
    storage: { filesystem: { rootdirectory: path.join(dir, "data") } },
    http: { addr: "127.0.0.1:0" },
    ...(options.credentials ? { auth: { htpasswd: { realm: "berth-test", path: htpasswd } } } : {}),
  };
  // The configuration file is JSON, which is also valid YAML.
  await writeFile(path.join(dir, "config.yml"), JSON.stringify(config));
  const child = spawn(program, ["serve", path.join(dir, "config.yml")], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  const stop = async () => {
    if (child.exitCode === null && child.signalCode === null) {
      const ended = new Promise((resolve) => child.once("exit", resolve));
      child.kill("SIGTERM");
      await ended;
    }
    await rm(dir, { recursive: true, force: true });
  };
  try {
    const address = await listeningAddress(child);
    return { address, push: pushTo(address, options), [Symbol.asyncDispose]: stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Returns the address of the registry, which listens on a free port and logs it. */
function listeningAddress(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    const seen: string[] = [];
    const fail = (why: string) =>
      reject(new Error(`docker-registry did not start: ${why}\n${seen.slice(-5).join("\n")}`));
    const timer = setTimeout(() => fail("it took too long"), START_LIMIT_MS);
    child.once("error", (error) => fail(error.message));
    child.once("exit", (code) => fail(`it ended with ${code}`));
    if (!child.stderr) return fail("its log cannot be read");
    // The output is read to its end, because a full pipe would stop the registry.
    createInterface({ input: child.stderr }).on("line", (line) => {
      const address = /listening on (127\.0\.0\.1:\d+)/.exec(line)?.[1];
      if (address) {
        clearTimeout(timer);
        resolve(address);
      } else if (seen.length < 100) seen.push(line);
    });
  });
}

function pushTo(address: string, options: { credentials?: boolean }): TestRegistry["push"] {
  return async (docker, image, as = image) => {
    const name = as.replace(/^berth\.test\//, "");
    const colon = name.lastIndexOf(":");
    const repo = `${address}/${name.slice(0, colon)}`;
    const tag = name.slice(colon + 1);
    await docker.getImage(image).tag({ repo, tag });
    const pushed = docker.getImage(`${repo}:${tag}`);
    const authconfig = options.credentials
      ? { ...REGISTRY_USER, serveraddress: address }
      : { username: "", password: "", serveraddress: address };
    const stream = await pushed.push({ tag, authconfig });
    await new Promise<void>((resolve, reject) => {
      let failure: string | undefined;
      docker.modem.followProgress(
        stream,
        (error: Error | null) =>
          error || failure ? reject(error ?? new Error(failure)) : resolve(),
        (message: { error?: string }) => (failure ??= message.error),
      );
    });
    await pushed.remove();
    return `${repo}:${tag}`;
  };
}
