import { extname } from "node:path";
import { Worker, type WorkerOptions } from "node:worker_threads";

/**
 * The flags with which Node.js runs a TypeScript module. Tests and benchmarks run the sources, and Node.js before
 * version 22.18 strips types only with a flag. The build consists of JavaScript and needs no flags.
 */
export const sourceFlags: readonly string[] =
  import.meta.url.endsWith(".ts") && !process.features.typescript
    ? ["--experimental-strip-types"]
    : [];

/**
 * Starts a worker thread with the module `name` (without extension) from the folder of the module `from`, which is an
 * `import.meta.url`.
 */
export function startWorker(name: string, from: string, options: WorkerOptions = {}): Worker {
  const entry = new URL(`./${name}${extname(from)}`, from);
  return new Worker(entry, { ...options, execArgv: [...process.execArgv, ...sourceFlags] });
}
