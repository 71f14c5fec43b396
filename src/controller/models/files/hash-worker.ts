import { closeSync, openSync, readSync } from "node:fs";
import { parentPort, workerData } from "node:worker_threads";
import { FileDigest } from "./file-digest.ts";
import type { HashWorkerData, HashWorkerMessage } from "./file-hash.ts";

const READ_BYTES = 2 ** 20;
const REPORT_EVERY_BYTES = 8 * 2 ** 20;

const { request, readableBytes }: HashWorkerData = workerData;
const digest = new FileDigest(request);
const buffer = Buffer.allocUnsafe(READ_BYTES);
const fd = openSync(request.path, "r");
let reportedBytes = 0;
for (let at = 0; at < request.sizeBytes; ) {
  const readable = Atomics.load(readableBytes, 0);
  if (BigInt(at) >= readable) {
    Atomics.wait(readableBytes, 0, readable);
    continue;
  }
  const bytesRead = readSync(fd, buffer, 0, Math.min(READ_BYTES, Number(readable) - at), at);
  if (bytesRead === 0) throw new Error(`the file has only ${at} bytes`);
  digest.update(buffer.subarray(0, bytesRead));
  at += bytesRead;
  if (at - reportedBytes < REPORT_EVERY_BYTES) continue;
  reportedBytes = at;
  send(at);
}
closeSync(fd);
send(digest.result());

function send(message: HashWorkerMessage): void {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
  parentPort?.postMessage(message);
}
