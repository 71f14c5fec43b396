import { execFile, spawn } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { mkdirSync, mkdtempSync } from "node:fs";
import { open, rm } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { bundleProgram } from "../test/support/bundle-program.ts";
import { freePorts } from "../test/support/free-port.ts";
import { type Figure, median } from "./report.ts";
import { startUnevenServer } from "./uneven-server.ts";

const run = promisify(execFile);
const CLIENT = await bundleProgram("bench/download-client.mjs");
const MIB = 2 ** 20;
const AIM = 0.9;
const START_LIMIT_MS = 15_000;

interface Served {
  /** The URL of a small file that warms up the client. */
  readonly warm: string;
  readonly url: string;
  readonly sizeBytes: number;
  readonly sha256: string;
}

/**
 * Compares downloads from a local Caddy with Berth and with curl in alternating rounds. Berth hashes the file and
 * flushes it; the file of curl is flushed with `sync` and not hashed. All files are in the working directory, because a
 * /tmp in memory would make flushes cost nothing.
 */
export async function benchDownload(): Promise<Figure[]> {
  mkdirSync(".berth", { recursive: true });
  const dir = mkdtempSync(resolve(".berth/bench-download-"));
  const [port = 0] = await freePorts(1);
  const words = ["file-server", "--listen", `127.0.0.1:${port}`, "--root", dir];
  const caddy = spawn("caddy", words, { stdio: "ignore", env: { ...process.env, HOME: dir } });
  try {
    const serve = (name: string, mebibytes: number) =>
      makeFile(dir, `http://127.0.0.1:${port}`, name, mebibytes);
    const large = await serve("large", 1024);
    const small = await serve("small", 16);
    await untilServed(small.url);
    return [
      await comparePrograms("download of 1 GiB", large, dir, 6),
      await comparePrograms("download of 16 MiB", small, dir, 7),
      await compareParts(large, dir),
      await compareSlowConnection(await serve("medium", 320), dir),
    ];
  } finally {
    caddy.kill("SIGKILL");
    await rm(dir, { recursive: true, force: true });
  }
}

async function comparePrograms(
  name: string,
  file: Served,
  dir: string,
  rounds: number,
): Promise<Figure> {
  const berth: number[] = [];
  const curl: number[] = [];
  const hashed: number[] = [];
  const loop: number[] = [];
  const withCurl = async () => {
    const { flushedMs, hashedMs } = await downloadWithCurl(file, dir);
    curl.push(flushedMs);
    hashed.push(hashedMs);
  };
  const withBerth = async () => {
    const { ms, loopP99Ms } = await downloadWithBerth(file, dir);
    berth.push(ms);
    loop.push(loopP99Ms);
  };
  // The order of the programs alternates, because disks of rented machines slow down after a burst of writes, which
  // would affect the second program.
  for (let round = 0; round < rounds; round += 1) {
    const order = round % 2 === 0 ? [withCurl, withBerth] : [withBerth, withCurl];
    for (const take of order) await take();
  }
  const ratio = median(berth.map((ms, round) => (curl[round] ?? ms) / ms));
  const ofHashed = median(berth.map((ms, round) => (hashed[round] ?? ms) / ms));
  return {
    name,
    value: speed(file, median(berth)),
    floor: `${speed(file, median(curl))} curl, flushed`,
    ratio: ratio.toFixed(2),
    aim: `>= ${AIM}`,
    isMet: ratio >= AIM,
    notes: [
      `best round: ${speed(file, Math.min(...berth))}, curl ${speed(file, Math.min(...curl))}`,
      `against curl, flushed, and sha256sum after it: ${ofHashed.toFixed(2)}`,
      `wait of the event loop meanwhile, 99th percentile: ${median(loop).toFixed(0)} ms`,
    ],
  };
}

/**
 * Measures the download with several numbers of connections. A real hub limits the speed of each connection and the
 * local Caddy does not, so more connections gain less here than they would with a hub.
 */
async function compareParts(file: Served, dir: string): Promise<Figure> {
  const counts = [1, 2, 4, 8];
  const times = new Map<number, number[]>(counts.map((count) => [count, []]));
  for (let round = 0; round < 3; round += 1)
    for (const [count, ms] of times) ms.push((await downloadWithBerth(file, dir, count)).ms);
  return {
    name: "download of 1 GiB, by connections",
    value: counts
      .map((count) => `${count}: ${speed(file, median(times.get(count) ?? []))}`)
      .join(", "),
    floor: "-",
    ratio: "-",
    aim: "-",
    isMet: undefined,
  };
}

/**
 * Compares a download by Berth over four connections, one of which is slow, with a download by curl over one fast
 * connection. The parts of the file that the slow connection loads must not delay the whole download.
 */
async function compareSlowConnection(file: Served, dir: string): Promise<Figure> {
  const server = await startUnevenServer({
    file: join(dir, basename(file.url)),
    sizeBytes: file.sizeBytes,
    bytesPerSecond: 20 * MIB,
    slowBytesPerSecond: 1.5 * MIB,
  });
  const uneven = { ...file, url: server.url };
  const ratios: number[] = [];
  for (let round = 0; round < 3; round += 1) {
    server.restart();
    const { flushedMs } = await downloadWithCurl(uneven, dir);
    server.restart();
    ratios.push(flushedMs / (await downloadWithBerth(uneven, dir)).ms);
  }
  server.close();
  const ratio = median(ratios);
  return {
    name: "download of 320 MiB, one of four connections slow",
    value: `${ratio.toFixed(2)} times as fast`,
    floor: "curl, one fast connection",
    ratio: ratio.toFixed(2),
    aim: ">= 1",
    isMet: ratio >= 1,
  };
}

async function downloadWithBerth(
  file: Served,
  dir: string,
  count?: number,
): Promise<{ readonly ms: number; readonly loopP99Ms: number }> {
  const to = join(dir, "models");
  const words = [CLIENT, file.warm, file.url, String(file.sizeBytes), file.sha256, to];
  const { stdout } = await run(
    process.execPath,
    count === undefined ? words : [...words, String(count)],
  );
  await rm(to, { recursive: true });
  const told: unknown = JSON.parse(stdout);
  if (typeof told !== "object" || told === null || !("ms" in told) || !("loopP99Ms" in told))
    throw new Error(`the client said: ${stdout}`);
  return { ms: Number(told.ms), loopP99Ms: Number(told.loopP99Ms) };
}

/**
 * Returns two times in milliseconds since the start: when the file was on the disk, and when its hash was verified.
 */
async function downloadWithCurl(
  file: Served,
  dir: string,
): Promise<{ readonly flushedMs: number; readonly hashedMs: number }> {
  const to = join(dir, "by-curl");
  const start = performance.now();
  await run("curl", ["--silent", "--fail", "--output", to, file.url]);
  await run("sync", [to]);
  const flushedMs = performance.now() - start;
  await run("sha256sum", [to]);
  const hashedMs = performance.now() - start;
  await rm(to);
  return { flushedMs, hashedMs };
}

async function makeFile(
  dir: string,
  server: string,
  name: string,
  mebibytes: number,
): Promise<Served> {
  const hash = createHash("sha256");
  const file = await open(join(dir, name), "w");
  for (let part = 0; part < mebibytes; part += 1) {
    const bytes = randomBytes(MIB);
    hash.update(bytes);
    await file.write(bytes);
  }
  await file.sync();
  await file.close();
  const sizeBytes = mebibytes * MIB;
  return {
    warm: `${server}/small`,
    url: `${server}/${name}`,
    sizeBytes,
    sha256: hash.digest("hex"),
  };
}

async function untilServed(url: string): Promise<void> {
  for (const deadline = Date.now() + START_LIMIT_MS; ; ) {
    const isThere = await fetch(url, { method: "HEAD" }).then(
      ({ ok }) => ok,
      () => false,
    );
    if (isThere) return;
    if (Date.now() > deadline) throw new Error("Caddy did not start");
    await sleep(50);
  }
}

function speed({ sizeBytes }: Served, ms: number): string {
  return `${(sizeBytes / MIB / (ms / 1000)).toFixed(0)} MiB/s`;
}
