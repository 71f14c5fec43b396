import assert from "node:assert/strict";
import { parentPort, workerData } from "node:worker_threads";
import type { WriterData, WriterFailedEvent, WriterRequest } from "./writer-protocol.ts";
import { WriterRuntime } from "./writer-runtime.ts";

/** The channel to the main thread. This file is the entry point of the writer's thread. */
const port = parentPort;
assert(port, "writer-worker.ts must be started as a worker thread");
const data: WriterData = workerData;
const runtime = new WriterRuntime(data);

port.on("message", (request: WriterRequest) => {
  port.postMessage(runtime.handle(request));
  if (request.type === "close") {
    port.close();
    return;
  }
  const failure = runtime.runMaintenance();
  if (failure) port.postMessage({ type: "writer_failed", failure } satisfies WriterFailedEvent);
});
