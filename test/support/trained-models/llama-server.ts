import { type ChildProcess, execFile, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { promisify } from "node:util";
import { freePorts } from "../free-port.ts";

const run = promisify(execFile);
const library = join(import.meta.dirname, "../../../node_modules/node-llama-cpp/llama");
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
 * Builds llama-server for this processor from the sources that node-llama-cpp brings. Files that are there already are
 * not made again. The build takes many minutes.
 */
export async function buildLlamaServer(dir: string): Promise<LlamaServerBuild> {
  const source = join(dir, "source");
  const build = join(dir, "build");
  await mkdir(dir, { recursive: true });
  if (!existsSync(join(source, ".git")))
    await run("git", ["clone", "--quiet", join(library, "gitRelease.bundle"), source]);
  const { stdout } = await run("git", ["-C", source, "rev-parse", "HEAD"]);
  const flags = ["CMAKE_BUILD_TYPE=Release", "BUILD_SHARED_LIBS=OFF"]
    .concat(["LLAMA_BUILD_TESTS=OFF", "LLAMA_BUILD_EXAMPLES=OFF", "LLAMA_USE_PREBUILT_UI=OFF"])
    .concat(["LLAMA_OPENSSL=OFF", "GGML_NATIVE=ON", "GGML_OPENMP=OFF"]);
  await runVisibly("cmake", ["-S", source, "-B", build, ...flags.map((flag) => `-D${flag}`)]);
  await runVisibly("cmake", ["--build", build, "--target", "llama-server", "-j2"]);
  return { program: join(build, "bin/llama-server"), commit: stdout.trim() };
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
      .concat(["--cache-ram", "0", "--no-ui", "--no-warmup", ...flags]);
    const child = spawn(program, all, { stdio: ["ignore", "ignore", "inherit"] });
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
