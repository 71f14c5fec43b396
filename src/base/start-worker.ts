import { extname } from "node:path";
import { Worker, type WorkerOptions } from "node:worker_threads";

/**
 * Starts a worker thread with the module `name` (without extension) from the folder of the module `from`, which is an
 * `import.meta.url`. In dist/ both modules are JavaScript; in tests they are TypeScript, whose types Node.js
 * removes.
 */
export function startWorker(name: string, from: string, options: WorkerOptions = {}): Worker {
  return new Worker(new URL(`./${name}${extname(from)}`, from), options);
}
