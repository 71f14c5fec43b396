import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { promisify } from "node:util";
import { NodeRegistry } from "./node-registry.ts";

const root = join(import.meta.dirname, "../..");
const PACKAGE = "node-under-test";

export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface PinnedNodeOptions {
  /**
   * If true, the pinned Node.js is a copy of the Node.js that runs the test; by default it is a script that starts
   * the same Node.js.
   */
  readonly isWhole?: boolean;
  readonly script?: string;
}

/**
 * A checkout whose bin/berth is started by a Node.js that claims to be version 18, and a registry with the pinned
 * version.
 */
export class PinnedNodeHarness implements AsyncDisposable {
  readonly folder: string;
  readonly registry: NodeRegistry;
  readonly version: string;

  private constructor(folder: string, registry: NodeRegistry, version: string) {
    this.folder = folder;
    this.registry = registry;
    this.version = version;
  }

  static async open(options: PinnedNodeOptions = {}): Promise<PinnedNodeHarness> {
    const folder = await mkdtemp(join(tmpdir(), "berth-pinned-node-"));
    const { node } = process.versions;
    const registry = await NodeRegistry.open(PACKAGE, node, await packNode(folder, options));
    const scene = new PinnedNodeHarness(folder, registry, node);
    for (const name of ["bin", "scripts", "dist"])
      await mkdir(join(folder, "checkout", name), { recursive: true });
    for (const name of ["bin/berth", "scripts/pinned-node.cjs"])
      await copyFile(join(root, name), join(folder, "checkout", name));
    await writeFile(join(folder, "checkout/bin/package.json"), `{ "type": "commonjs" }`);
    await writeFile(join(folder, "checkout/package.json"), `{ "type": "module" }`);
    await writeFile(join(folder, "claims-18.cjs"), CLAIMS_18);
    await scene.pin(registry.integrity);
    await scene.writeProgram(`export const main = () => console.log(process.execPath);`);
    return scene;
  }

  /** The folder that contains the pinned Node.js. */
  get nodes(): string {
    return join(this.folder, "nodes");
  }

  get pinned(): string {
    return join(this.nodes, `${this.version}-linux-${process.arch}`, "bin/node");
  }

  /** Lists the content of the folder of the pinned Node.js, including files of unfinished downloads. */
  get kept(): string[] {
    return readdirSync(this.nodes);
  }

  async pin(integrity: string): Promise<void> {
    const packages = { [process.arch]: { name: PACKAGE, integrity } };
    const pinned = { version: this.version, megabytes: 1, packages };
    await writeFile(join(this.folder, "checkout/scripts/pinned-node.json"), JSON.stringify(pinned));
  }

  /** Writes the checkout's `dist/main.js`, the program that bin/berth runs. */
  async writeProgram(source: string): Promise<void> {
    await writeFile(join(this.folder, "checkout/dist/main.js"), source);
  }

  /** Runs bin/berth on a Node.js that reports version 18, which Berth does not support. */
  start(args: readonly string[] = [], environment: Readonly<Record<string, string>> = {}) {
    return spawn(process.execPath, this.argv(args), {
      env: { ...process.env, ...this.environment, ...environment },
      stdio: ["pipe", "pipe", "pipe"],
    });
  }

  argv(args: readonly string[]): string[] {
    return [
      "-r",
      join(this.folder, "claims-18.cjs"),
      join(this.folder, "checkout/bin/berth"),
      ...args,
    ];
  }

  get environment(): Record<string, string> {
    return {
      BERTH_NODE_DIR: this.nodes,
      // The environment contains neither this user's npm settings nor the downloads of an earlier test.
      npm_config_userconfig: join(this.folder, "npmrc"),
      npm_config_cache: join(this.folder, "npm-cache"),
      npm_config_registry: this.registry.url,
      npm_config_noproxy: "127.0.0.1",
      npm_config_fetch_retries: "0",
      npm_config_update_notifier: "false",
    };
  }

  async run(
    args: readonly string[] = [],
    environment: Readonly<Record<string, string>> = {},
  ): Promise<Exit> {
    return waitForExit(this.start(args, environment));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.registry[Symbol.asyncDispose]();
    await rm(this.folder, { recursive: true, force: true });
  }
}

export async function waitForExit(child: ChildProcess): Promise<Exit> {
  const { stdout, stderr } = child;
  if (!stdout || !stderr) throw new Error("the child has no pipes");
  const [said, complained, [code, signal]] = await Promise.all([
    text(stdout),
    text(stderr),
    once(child, "exit"),
  ]);
  return { code, signal, stdout: said, stderr: complained };
}

/**
 * A program that makes Node.js report version 18. It also clears the flags that Node.js passes on to the pinned
 * Node.js. So the pinned Node.js does not load this program, and it reports its real version.
 */
const CLAIMS_18 = `
Object.defineProperty(process, "versions", { value: { ...process.versions, node: "18.20.4" } });
process.execArgv.length = 0;
`;

async function packNode(folder: string, options: PinnedNodeOptions): Promise<Buffer> {
  const { isWhole = false, script = `exec '${process.execPath}' "$@"` } = options;
  const content = join(folder, "content");
  await mkdir(join(content, "package/bin"), { recursive: true });
  const node = join(content, "package/bin/node");
  if (isWhole) await copyFile(process.execPath, node);
  else await writeFile(node, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  await writeFile(join(content, "package/LICENSE"), "MIT\n");
  await writeFile(join(content, "package/package.json"), JSON.stringify({ name: PACKAGE }));
  const archive = join(folder, "node.tgz");
  // The archive may contain a whole Node.js of more than 100 MB, so gzip uses its fastest level.
  const args = ["-I", "gzip -1", "-cf", archive, "-C", content, "package"];
  await promisify(execFile)("tar", args);
  return readFile(archive);
}
