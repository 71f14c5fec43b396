import { closeSync, openSync, readSync } from "node:fs";
import { parentPort } from "node:worker_threads";
import { getErrorMessage } from "../../../base/errors.ts";
import { getSystemCode } from "./download-errors.ts";
import { FileDigest } from "./file-digest.ts";
import type { HashAnswer, HashRequest } from "./hash-worker-protocol.ts";

const READ_BYTES = 2 ** 20;
/** Between two looks at what was asked meanwhile. */
const READS_PER_TURN = 8;
const REPORT_EVERY_BYTES = 8 * 2 ** 20;

interface Job {
  readonly fd: number;
  readonly digest: FileDigest;
  at: number;
  upTo: number;
  sizeBytes: number | undefined;
  reportedAt: number;
}

const jobs = new Map<number, Job>();
const buffer = Buffer.allocUnsafe(READ_BYTES);
let isScheduled = false;

parentPort?.on("message", (request: HashRequest) => {
  try {
    handleRequest(request);
  } catch (error) {
    fail(request.job, error);
  }
});

function handleRequest(request: HashRequest): void {
  if (request.type === "open") {
    jobs.set(request.job, {
      fd: openSync(request.path, "r"),
      digest: new FileDigest(request.wanted),
      at: 0,
      upTo: 0,
      sizeBytes: undefined,
      reportedAt: 0,
    });
    return;
  }
  const job = jobs.get(request.job);
  if (!job) return;
  if (request.type === "cancel") end(request.job, job);
  else if (request.type === "advance") job.upTo = Math.max(job.upTo, request.upTo);
  else {
    job.upTo = request.sizeBytes;
    job.sizeBytes = request.sizeBytes;
  }
  schedule();
}

function schedule(): void {
  if (isScheduled) return;
  isScheduled = true;
  setImmediate(() => {
    isScheduled = false;
    for (const [number, job] of jobs) {
      try {
        hashNextBytes(number, job);
      } catch (error) {
        fail(number, error);
      }
    }
    if ([...jobs.values()].some(({ at, upTo }) => at < upTo)) schedule();
  });
}

function hashNextBytes(number: number, job: Job): void {
  for (let reads = 0; reads < READS_PER_TURN && job.at < job.upTo; reads += 1) {
    const wanted = Math.min(READ_BYTES, job.upTo - job.at);
    const read = readSync(job.fd, buffer, 0, wanted, job.at);
    if (read === 0) throw new Error(`the file has only ${job.at} bytes`);
    job.digest.update(buffer.subarray(0, read));
    job.at += read;
  }
  if (job.at === job.sizeBytes) {
    const digests = job.digest.result();
    end(number, job);
    sendAnswer({ type: "digests", job: number, digests });
  } else if (job.at - job.reportedAt >= REPORT_EVERY_BYTES) {
    job.reportedAt = job.at;
    sendAnswer({ type: "read", job: number, bytes: job.at });
  }
}

function end(number: number, job: Job): void {
  jobs.delete(number);
  closeSync(job.fd);
}

function fail(number: number, error: unknown): void {
  const job = jobs.get(number);
  if (job) end(number, job);
  sendAnswer({
    type: "failed",
    job: number,
    message: getSystemCode(error) ?? getErrorMessage(error),
  });
}

function sendAnswer(message: HashAnswer): void {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
  parentPort?.postMessage(message);
}
