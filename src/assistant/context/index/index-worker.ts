import assert from "node:assert/strict";
import { parentPort, workerData } from "node:worker_threads";
import { getErrorMessage } from "../../../base/errors.ts";
import type { IndexWorkerData, IndexWorkerMessage, IndexWorkerRequest } from "./index-protocol.ts";
import { IndexRuntime } from "./index-runtime.ts";
import { isDamaged, removeIndex } from "./store/open-index.ts";

/** The channel to the main thread. This file is the entry point of the index's worker thread. */
const port = parentPort;
assert(port, "index-worker.ts must be started as a worker thread");
const data: IndexWorkerData = workerData;
// oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
const sendMessage = (message: IndexWorkerMessage) => port.postMessage(message);

// An error that ends a worker thread reaches the main thread without its message, so the message is sent first.
process.on("uncaughtException", (error) => exitWithError(error));
try {
  const runtime = new IndexRuntime(data, sendMessage);
  port.on("message", (request: IndexWorkerRequest) => {
    runtime.handle(request);
    if (request.type === "close") port.close();
  });
  runtime.start();
} catch (error) {
  exitWithError(error);
}

/** Reports the error and ends the thread. A damaged index is deleted first; the main thread starts the thread again. */
function exitWithError(error: unknown): void {
  const message = "the index cannot be used";
  sendMessage({ type: "log", level: "error", message, fields: { err: getErrorMessage(error) } });
  if (isDamaged(error)) removeIndex(data.dir);
  process.exit(1);
}
