import { Worker, type WorkerOptions } from "node:worker_threads";

/**
 * Starts the thread whose module `name` (without its ending) stands beside the module `from`, an
 * `import.meta.url`. From dist/ it is JavaScript; under the tests and tsx it is TypeScript, which a thread has to be
 * taught.
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
