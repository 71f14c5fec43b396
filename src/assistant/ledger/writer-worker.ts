import assert from "node:assert/strict";
import { parentPort, workerData } from "node:worker_threads";
import type { WriterData, WriterFailedEvent, WriterRequest } from "./writer-protocol.ts";
import { WriterRuntime } from "./writer-runtime.ts";

/** The channel to the main thread. This file is the entry point of the writer's thread. */
const port = parentPort;
assert(port, "the ledger's writer runs in a thread of its own");
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
