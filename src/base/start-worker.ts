import { Worker, type WorkerOptions } from "node:worker_threads";

/**
 * Starts a worker thread with the module `name` (without extension) from the folder of the module `from`, which is an
 * `import.meta.url`. In dist/ the module is JavaScript; in tests and under tsx it is TypeScript, for which the thread
 * has to register a loader first.
 */
export function startWorker(name: string, from: string, options: WorkerOptions = {}): Worker {
  if (!from.endsWith(".ts")) return new Worker(new URL(`./${name}.js`, from), options);
  const tsx = JSON.stringify(import.meta.resolve("tsx/esm/api"));
  const entry = JSON.stringify(new URL(`./${name}.ts`, from).href);
  return new Worker(
    `import(${tsx}).then(({ register }) => { register(); return import(${entry}); });`,
    { ...options, eval: true },
  );
}
