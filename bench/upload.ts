import { createHash, randomBytes } from "node:crypto";
import { createReadStream } from "node:fs";
import { type FileHandle, mkdtemp, open, readFile, rm, stat } from "node:fs/promises";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import { RootFs } from "../scripts/base-image.mjs";
import { ensureTestImages, NODE_WEB } from "../test/support/images.ts";
import { withServer } from "./create.ts";
import type { BenchEngine } from "./engine.ts";
import { type Figure, median, seconds } from "./report.ts";
import type { BenchServer } from "./server.ts";

const ROUNDS = 3;
const MEGABYTES = 200;
const READY_LIMIT_MS = 300_000;
const BOUNDARY = "berth-bench-upload";

/**
 * Uploads an archive of 200 MB in POST /api/deploy to a new server. Measures the time until the answer, and the peak
 * memory of Berth until the answer and until the app is Ready.
 */
export async function benchUpload(engine: BenchEngine): Promise<Figure[]> {
  await ensureTestImages(engine.host);
  const dir = await mkdtemp(join(tmpdir(), "berth-bench-upload-"));
  try {
    const archive = join(dir, "source.tar.gz");
    await makeArchive(archive);
    const berth: number[] = [];
    const bare: number[] = [];
    const before: number[] = [];
    const afterUpload: number[] = [];
    const afterBuild: number[] = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      bare.push(await writeAndHash(archive, join(dir, `copy-${round}`)));
      await withServer(engine, async (server) => {
        before.push(await peakMegabytes(server.pid));
        berth.push(await upload(server, archive));
        afterUpload.push(await peakMegabytes(server.pid));
        await server.untilReady(1, READY_LIMIT_MS);
        afterBuild.push(await peakMegabytes(server.pid));
      });
    }
    const ratio = median(berth.map((ms, round) => ms / (bare[round] ?? ms)));
    return [
      {
        name: `upload of ${MEGABYTES} MB`,
        value: seconds(median(berth)),
        floor: `${seconds(median(bare))} write+hash in plain Node`,
        ratio: ratio.toFixed(2),
        aim: "-",
        isMet: undefined,
        notes: [`peak memory before it: ${median(before).toFixed(0)} MB`],
      },
      peakFigure(`peak memory, upload of ${MEGABYTES} MB`, afterUpload),
      peakFigure("peak memory, unpacked and built too", afterBuild),
    ];
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

function peakFigure(name: string, megabytes: readonly number[]): Figure {
  const peak = Math.max(...megabytes);
  return {
    name,
    value: `${peak.toFixed(0)} MB`,
    floor: "-",
    ratio: "-",
    aim: "< 200 MB",
    isMet: peak < 200,
  };
}

/** Creates an archive of random content, which compression cannot make smaller. */
async function makeArchive(path: string): Promise<void> {
  const fs = new RootFs().file("Dockerfile", `FROM ${NODE_WEB}\nCOPY Dockerfile /\n`);
  for (let part = 0; part < 10; part += 1)
    fs.file(`data/part-${part}`, randomBytes((MEGABYTES / 10) * 1_000_000));
  const file = await open(path, "w");
  await pipeline(Readable.from([fs.tar()]), createGzip({ level: 1 }), file.createWriteStream());
}

/** Reads, hashes, writes and flushes the archive, which every upload has to do. Returns the time in milliseconds. */
async function writeAndHash(from: string, to: string): Promise<number> {
  const start = performance.now();
  const file = await open(to, "w");
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(from)) {
    hash.update(chunk);
    await writeAll(file, chunk);
  }
  await file.sync();
  await file.close();
  hash.digest("hex");
  const took = performance.now() - start;
  await rm(to);
  return took;
}

async function writeAll(file: FileHandle, chunk: Buffer): Promise<void> {
  for (let written = 0; written < chunk.length; )
    written += (await file.write(chunk, written, chunk.length - written)).bytesWritten;
}

/**
 * Measures the time from the call to the answer. Builds the form itself, because FormData would need the archive in
 * memory.
 */
async function upload(server: BenchServer, archive: string): Promise<number> {
  const config = JSON.stringify({ name: "uploaded", port: 8080 });
  const head = [
    `--${BOUNDARY}`,
    `Content-Disposition: form-data; name="config"`,
    "",
    config,
    `--${BOUNDARY}`,
    `Content-Disposition: form-data; name="source"; filename="source.tar.gz"`,
    "Content-Type: application/gzip",
    "",
    "",
  ].join("\r\n");
  const tail = `\r\n--${BOUNDARY}--\r\n`;
  const length = Buffer.byteLength(head) + (await stat(archive)).size + Buffer.byteLength(tail);
  const start = performance.now();
  const outgoing = request(`${server.api}/api/deploy`, {
    method: "POST",
    headers: {
      ...server.headers,
      "Content-Type": `multipart/form-data; boundary=${BOUNDARY}`,
      "Content-Length": length,
    },
  });
  const answered = new Promise<{ status: number | undefined; text: string }>((resolve, reject) => {
    outgoing.once("error", reject);
    outgoing.once("response", (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
      response.once("end", () => resolve({ status: response.statusCode, text }));
    });
  });
  const [{ status, text }] = await Promise.all([
    answered,
    pipeline(bodyOf(head, archive, tail), outgoing),
  ]);
  if (status !== 202) throw new Error(`POST /api/deploy answered ${status}: ${text}`);
  return performance.now() - start;
}

async function* bodyOf(head: string, archive: string, tail: string): AsyncGenerator<Buffer> {
  yield Buffer.from(head);
  yield* createReadStream(archive);
  yield Buffer.from(tail);
}

/** Returns the peak resident memory of a process. */
async function peakMegabytes(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  return Number(/VmHWM:\s+(\d+) kB/.exec(status)?.[1]) / 1000;
}
