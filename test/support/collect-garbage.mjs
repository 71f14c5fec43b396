// This module is preloaded into a daemon (NODE_OPTIONS=--import). On SIGUSR2 the main thread collects all garbage
// and reports it, so that a test sees only objects that are still referenced.
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { isMainThread } from "node:worker_threads";

if (isMainThread) {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc");
  let times = 0;
  process.on("SIGUSR2", () => {
    collect();
    // The second collection removes the objects that finalizers of the first one released.
    setImmediate(() => {
      collect();
      times += 1;
      process.stderr.write(`${JSON.stringify({ collected: times })}\n`);
    });
  });
}
