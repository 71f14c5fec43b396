import { type ChildProcess, execFile, type StdioOptions, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { promisify } from "node:util";
import { freePorts } from "../free-port.ts";

const run = promisify(execFile);
const library = join(import.meta.dirname, "../../../node_modules/node-llama-cpp/llama");
const binaries = join(
  import.meta.dirname,
  `../../../node_modules/@node-llama-cpp/linux-${process.arch}/bins/linux-${process.arch}`,
);
const START_MS_MAX = 60_000;

/** Returns the release of llama.cpp that node-llama-cpp contains as a program. */
export async function bundledRelease(): Promise<string> {
  const { release }: { release: string } = JSON.parse(
    await readFile(join(library, "binariesGithubRelease.json"), "utf8"),
  );
  return release;
}

export interface LlamaServerBuild {
  readonly program: string;
  readonly commit: string;
}

/**
 * Builds llama-server from the sources that node-llama-cpp contains, and links it with the libraries that
 * node-llama-cpp contains, so that both compute with the same kernels. The code that is compiled here computes nothing,
 * so it is not optimised. Files that exist already are not built again.
 */
export async function buildLlamaServer(dir: string): Promise<LlamaServerBuild> {
  const source = join(dir, "source");
  const build = join(dir, "build");
  await mkdir(dir, { recursive: true });
  if (!existsSync(join(source, ".git")))
    await run("git", ["clone", "--quiet", join(library, "gitRelease.bundle"), source]);
  const { stdout } = await run("git", ["-C", source, "rev-parse", "HEAD"]);
  const flags = ["CMAKE_BUILD_TYPE=Release", "CMAKE_CXX_FLAGS_RELEASE=-O0 -DNDEBUG"]
    .concat(["BUILD_SHARED_LIBS=OFF", "LLAMA_BUILD_TESTS=OFF", "LLAMA_BUILD_EXAMPLES=OFF"])
    .concat(["LLAMA_USE_PREBUILT_UI=OFF", "LLAMA_OPENSSL=OFF"])
    .map((flag) => `-D${flag}`);
  await runVisibly("cmake", ["-G", "Unix Makefiles", "-S", source, "-B", build, ...flags]);
  // With `/fast`, make builds a target without the libraries that it depends on.
  const targets = Object.keys(ARCHIVES).map((target) => `${target}/fast`);
  await runVisibly("make", ["-C", build, "-j2", "llama-ui-assets/fast"]);
  await runVisibly("make", ["-C", build, "-j2", ...targets]);
  const program = join(build, "llama-server");
  const libraries = await sharedLibraries();
  await runVisibly("c++", [
    "-o",
    program,
    join(source, "tools/server/main.cpp"),
    "-I",
    join(source, "tools/server"),
    ...Object.values(ARCHIVES).map((archive) => join(build, archive)),
    "-L",
    binaries,
    ...libraries.map((name) => `-l:${name}`),
    `-Wl,-rpath,${binaries}`,
    "-lpthread",
    "-ldl",
  ]);
  return { program, commit: stdout.trim() };
}

/**
 * The parts of llama-server that node-llama-cpp does not contain, by build target, in the order in which they are
 * linked.
 */
const ARCHIVES: Readonly<Record<string, string>> = {
  "llama-server-impl": "tools/server/libllama-server-impl.a",
  "server-context": "tools/server/libserver-context.a",
  mtmd: "tools/mtmd/libmtmd.a",
  "llama-ui": "tools/ui/libllama-ui.a",
  "cpp-httplib": "vendor/cpp-httplib/libcpp-httplib.a",
  "vendor-hash": "vendor/hash/libvendor-hash.a",
};

async function sharedLibraries(): Promise<readonly string[]> {
  const names = await readdir(binaries);
  return names.filter((name) => /^lib(llama|ggml)/.test(name) && !name.startsWith("libggml-cpu"));
}

function runVisibly(program: string, args: readonly string[]): Promise<void> {
  return new Promise((resolve, reject) => {
    spawn(program, args, { stdio: ["ignore", "inherit", "inherit"] })
      .once("error", reject)
      .once("close", (code) => {
        if (code === 0) resolve();
        else reject(new Error(`${program} ended with ${code}`));
      });
  });
}

/** A running llama-server with one slot and one thread. */
export class LlamaServer implements AsyncDisposable {
  readonly #url: string;
  readonly #child: ChildProcess;

  static async start(program: string, flags: readonly string[]): Promise<LlamaServer> {
    const [port = 0] = await freePorts(1);
    const all = ["--host", "127.0.0.1", "--port", String(port), "--parallel", "1"]
      .concat(["--threads", "1", "--threads-batch", "1", "--ctx-checkpoints", "0"])
      .concat(["--cache-ram", "0", "--no-ui", "--no-warmup", "--log-verbosity", "1", "--swa-full"])
      .concat(flags);
    // llama.cpp looks for its kernels in the working directory.
    const stdio: StdioOptions = ["ignore", "ignore", "inherit"];
    const child = spawn(program, all, { stdio, cwd: binaries });
    const server = new LlamaServer(`http://127.0.0.1:${port}`, child);
    const deadline = Date.now() + START_MS_MAX;
    while (!(await server.#isReady())) {
      if (child.exitCode !== null || Date.now() > deadline) {
        await server[Symbol.asyncDispose]();
        throw new Error("llama-server does not answer");
      }
      await pause(100);
    }
    return server;
  }

  private constructor(url: string, child: ChildProcess) {
    this.#url = url;
    this.#child = child;
  }

  /** Sends a request. The answer is not validated, because a recording is read by a person before it is committed. */
  async post<Answer>(path: string, body: unknown): Promise<Answer> {
    const response = await fetch(this.#url + path, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${path}: ${response.status} ${text}`);
    const answer: Answer = JSON.parse(text);
    return answer;
  }

  async #isReady(): Promise<boolean> {
    try {
      return (await fetch(`${this.#url}/health`)).ok;
    } catch {
      return false;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode !== null) return;
    const ended = new Promise((resolve) => this.#child.once("close", resolve));
    this.#child.kill("SIGTERM");
    await ended;
  }
}
