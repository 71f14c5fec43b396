import { execFile, spawn } from "node:child_process";
import { copyFile, mkdtemp, readdir, readFile, rm, statfs, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, describe, expect, test } from "vitest";
import { AssistantProcess, berth } from "../support/assistant-process.ts";
import { writeDamagedModel } from "../support/gguf/damaged-model.ts";
import { getModelFile } from "../support/gguf/preset-model.ts";

/**
 * The number of streams that the test opens and cancels. It is high enough to notice a bug that leaks something in only
 * one stream of a hundred.
 */
const STREAMS = Number(process.env["BERTH_STREAM_RUNS"] ?? 200);

const run = promisify(execFile);

let tiny: string;
/** The path of a model file whose answers never end, so that only an abort ends a request. */
let endless: string;
beforeAll(async () => {
  [tiny, endless] = await Promise.all([
    getModelFile("tiny"),
    getModelFile("tiny", { endsAfter: null, contextTokens: 8_192 }),
  ]);
});

const messages = [{ role: "user" as const, content: "Tell me a story" }];

/** Returns the processes below `pid`, the direct children first. */
async function childrenOf(pid: number): Promise<number[]> {
  const tasks = await readdir(`/proc/${pid}/task`);
  const lists = await Promise.all(
    tasks.map((task) => readFile(`/proc/${pid}/task/${task}/children`, "utf8").catch(() => "")),
  );
  return lists.join(" ").split(" ").filter(Boolean).map(Number);
}

async function isRunning(pid: number): Promise<boolean> {
  const status = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
  return status !== "" && !/\) Z /.test(status);
}

async function openFiles(pid: number): Promise<number> {
  return (await readdir(`/proc/${pid}/fd`)).length;
}

describe("the daemon", () => {
  test("exits cleanly if it gets SIGTERM during its startup", async () => {
    const dataDir = await mkdtemp(join(tmpdir(), "berth-starting-"));
    const child = spawn(
      process.execPath,
      ["bin/berth", "assistant", "--model", tiny, "--port", "0", "--data-dir", dataDir],
      { stdio: ["ignore", "pipe", "ignore"] },
    );
    const ended = new Promise((resolve) => child.once("close", resolve));
    let said = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => (said += text));
    try {
      // The daemon creates the folder run/ first, so its startup is still in progress when the folder appears.
      await expect.poll(() => readdir(dataDir), { interval: 2 }).toContain("run");
      child.kill("SIGTERM");
      expect(await ended).toBe(0);
      expect(said).toBe("");
      const verified = await berth(["ledger", "verify", "--data-dir", dataDir]);
      expect(verified).toMatchObject({ code: 0 });
    } finally {
      child.kill("SIGKILL");
      await ended;
      await rm(dataDir, { recursive: true, force: true });
    }
  });
});

describe("the inference engine", () => {
  test("ends a stream with an error when it is killed midway, and is restarted", async () => {
    await using daemon = await AssistantProcess.start(["--model", `m=${endless}`]);
    const stream = await daemon.openai.chat.completions.create({
      model: "m",
      messages,
      stream: true,
      max_tokens: 8_000,
    });
    const [engine] = await childrenOf(daemon.pid);
    if (engine === undefined) throw new Error("a resident model has a process of its own");
    let chunks = 0;
    const reading = async () => {
      for await (const _ of stream) if (++chunks === 5) process.kill(engine, "SIGKILL");
    };
    await expect(reading()).rejects.toMatchObject({ code: "engine_failed" });
    expect(chunks).toBeGreaterThanOrEqual(5);
    const again = await daemon.openai.chat.completions.create({
      model: "m",
      messages,
      max_tokens: 3,
    });
    expect(again.usage?.completion_tokens).toBeGreaterThan(0);
    expect(await childrenOf(daemon.pid)).not.toContain(engine);
  });

  test("exits when the daemon is killed, and the next daemon answers requests with an intact ledger", async () => {
    await using daemon = await AssistantProcess.start(["--model", `m=${endless}`]);
    const stream = await daemon.openai.chat.completions.create({
      model: "m",
      messages,
      stream: true,
      max_tokens: 8_000,
    });
    const [engine] = await childrenOf(daemon.pid);
    for await (const _ of stream) break;
    await daemon.stop("SIGKILL");
    await expect.poll(() => isRunning(engine ?? 0)).toBe(false);
    await daemon.start();
    await daemon.openai.chat.completions.create({ model: "m", messages, max_tokens: 2 });
    await daemon.stop();
    const verified = await berth(["ledger", "verify", "--data-dir", daemon.dataDir]);
    expect(verified).toMatchObject({ code: 0, stderr: "" });
    const tail = await berth(["ledger", "tail", "--data-dir", daemon.dataDir, "--json"]);
    expect(tail.stdout.match(/inference\.generate/g)).toHaveLength(2);
  });

  test("keeps no model sequence occupied and no file open after hundreds of cancelled streams", async () => {
    await using daemon = await AssistantProcess.start([
      "--model",
      `m=${endless}`,
      "--queue",
      "500",
    ]);
    const cancel = async (chunksMax: number) => {
      const stream = await daemon.openai.chat.completions.create({
        model: "m",
        messages,
        stream: true,
        max_tokens: 8_000,
      });
      let chunks = 0;
      for await (const _ of stream) if (++chunks >= chunksMax) break;
    };
    const round = (count: number) =>
      Promise.all(Array.from({ length: count }, (_, index) => cancel(1 + (index % 4))));
    const quiet = async () => {
      await expect
        .poll(async () => (await daemon.state()).models[0])
        .toMatchObject({ active: 0, queued: 0 });
    };
    await round(50);
    await quiet();
    const [engine = 0] = await childrenOf(daemon.pid);
    const before = [await openFiles(daemon.pid), await openFiles(engine)];
    for (let done = 0; done < STREAMS; done += 50) await round(50);
    await quiet();
    // The test's HTTP client opens and closes kept-alive connections itself, so the daemon may have a few more open
    // files than before.
    await expect.poll(() => openFiles(daemon.pid)).toBeLessThanOrEqual((before[0] ?? 0) + 5);
    expect(await openFiles(engine)).toBe(before[1]);
  });
});

describe("models that cannot be loaded", () => {
  test("a damaged file on the command line is refused at startup, and the error has the model's name but not the file's path", async () => {
    const dir = await mkdtemp(join(tmpdir(), "berth-damaged-"));
    try {
      const file = join(dir, "broken.gguf");
      await writeDamagedModel(file, "truncated-tensors");
      const ended = await berth([
        "assistant",
        "--port",
        "0",
        "--data-dir",
        join(dir, "data"),
        "--model",
        file,
      ]);
      expect(ended.code).toBe(1);
      expect(ended.stderr).toMatch(/^error: .*broken/m);
      expect(ended.stderr).not.toMatch(/ {4}at |node_modules/);
    } finally {
      await rm(dir, { recursive: true });
    }
  });

  test("a damaged file in the models folder is listed, refused on request, and served once it has been replaced by a good file", async () => {
    await using daemon = await AssistantProcess.start();
    const file = join(daemon.dataDir, "models/broken.gguf");
    await writeDamagedModel(file, "truncated-header");
    const chat = () =>
      daemon.openai.chat.completions.create({ model: "broken", messages, max_tokens: 2 });
    await expect(chat()).rejects.toMatchObject({ code: "model_unusable" });
    const listed = await daemon.openai.models.list();
    expect(listed.data.map(({ id }) => id)).toEqual(["broken"]);
    await rm(file);
    await copyFile(tiny, file);
    expect((await chat()).usage?.completion_tokens).toBeGreaterThan(0);
  });

  test("a model that needs more memory than is available is refused, and the error has the numbers and advice", async () => {
    const wide = await getModelFile("wide-context");
    await using daemon = await AssistantProcess.start(["--memory", "200Mi"]);
    await expect(
      daemon.control("POST", "/models/load", { id: "wide", path: wide, context_tokens: 131_072 }),
    ).rejects.toThrow(
      /insufficient_memory.*needs 0\.[0-9]+ GB.*a context of [0-9]+ tokens.*would fit/,
    );
    // The daemon accepts the same model with a smaller context, because that needs less memory.
    await daemon.control("POST", "/models/load", {
      id: "wide",
      path: wide,
      context_tokens: 1_024,
      sequences: 1,
    });
    expect((await daemon.state()).models[0]).toMatchObject({ state: "resident" });
  });
});

test("a prompt that exceeds the context is refused, and the error names the limit", async () => {
  await using daemon = await AssistantProcess.start(["--model", `m=${tiny}`, "--context", "128"]);
  await expect(
    daemon.openai.chat.completions.create({
      model: "m",
      messages: [{ role: "user", content: "word ".repeat(500) }],
    }),
  ).rejects.toMatchObject({
    status: 400,
    code: "context_length_exceeded",
    message: expect.stringMatching(/128/),
  });
});

describe("the ledger", () => {
  test("refuses every request with 503 while the disk is full", async () => {
    const mount = await mkdtemp(join(tmpdir(), "berth-full-"));
    await run("mount", ["-t", "tmpfs", "-o", "size=64m", "tmpfs", mount]);
    try {
      await using daemon = await AssistantProcess.start([
        "--engine",
        "stub",
        "--data-dir",
        join(mount, "data"),
      ]);
      const chat = () =>
        daemon.openai.chat.completions.create({ model: "stub", messages, max_tokens: 2 });
      await chat();
      const { bavail, bsize } = await statfs(mount);
      const filler = join(mount, "filler");
      await writeFile(filler, Buffer.alloc(bavail * bsize)).catch(() => {});
      const refused = async () => {
        for (;;) await chat();
      };
      await expect(refused()).rejects.toMatchObject({
        status: 503,
        code: "ledger_unavailable",
        type: "service_unavailable",
      });
      const response = await fetch(`${daemon.ready.url}/v1/embeddings`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ model: "stub", input: "a" }),
      });
      expect(response.status).toBe(503);
      expect(response.headers.get("x-should-retry")).toBe("false");
      expect((await daemon.state()).ledger.ok).toBe(false);
      await rm(filler);
      await expect.poll(() => chat().then(() => "ok", String)).toBe("ok");
      await daemon.stop();
      const verified = await berth(["ledger", "verify", "--data-dir", join(mount, "data")]);
      expect(verified).toMatchObject({ code: 0, stderr: "" });
    } finally {
      await run("umount", ["-l", mount]);
      await rm(mount, { recursive: true });
    }
  });
});
