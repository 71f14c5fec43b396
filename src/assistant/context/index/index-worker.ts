import assert from "node:assert/strict";
import { parentPort, workerData } from "node:worker_threads";
import { messageOf } from "../../../base/errors.ts";
import { IndexRuntime } from "./index-runtime.ts";
import { isDamaged, removeIndex } from "./store/open-index.ts";
import type { WorkerData, WorkerMessage, WorkerRequest } from "./worker-protocol.ts";

/** The entry of the index's thread. */
const port = parentPort;
assert(port, "the index runs in a thread of its own");
const data: WorkerData = workerData;
// oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
const tell = (message: WorkerMessage) => port.postMessage(message);

// What a thread throws reaches the other one without its words, so they are told first.
process.on("uncaughtException", (error) => giveUp(error));
try {
  const runtime = new IndexRuntime(data, tell);
  port.on("message", (request: WorkerRequest) => {
    runtime.handle(request);
    if (request.type === "close") port.close();
  });
  runtime.start();
} catch (error) {
  giveUp(error);
}

/** The thread is started again, and makes the index anew where this one is damaged. */
function giveUp(error: unknown): void {
  const message = "the index cannot be used";
  tell({ type: "log", level: "error", message, fields: { err: messageOf(error) } });
  if (isDamaged(error)) removeIndex(data.dir);
  process.exit(1);
}
