// Preloaded into a daemon (NODE_OPTIONS=--import): on SIGUSR2 its main thread collects all garbage and says so,
// so that a test sees what is kept, and not what nobody has swept away yet.
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { isMainThread } from "node:worker_threads";

if (isMainThread) {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc");
  let times = 0;
  process.on("SIGUSR2", () => {
    collect();
    // What finalizers let go of is gone with the second.
    setImmediate(() => {
      collect();
      times += 1;
      process.stderr.write(`${JSON.stringify({ collected: times })}\n`);
    });
  });
}
