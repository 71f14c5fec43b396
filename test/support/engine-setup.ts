import type { TestProject } from "vitest/node";
import { answers, startPrivateEngine } from "../../scripts/engine.mjs";
import { beginRun, endRun } from "./engine-runs.ts";
import { ensureTestImages } from "./images.ts";

declare module "vitest" {
  export interface ProvidedContext {
    /** The address of the tests' engine, in the format of DOCKER_HOST. */
    dockerHost: string;
  }
}

/**
 * Sets up every test project that needs an engine. It uses the engine that BERTH_TEST_DOCKER_HOST names, or
 * starts a private one, which keeps running for the next run (`node scripts/engine.mjs stop` ends it). Without
 * an engine the tests fail; they are never skipped.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const given = process.env["BERTH_TEST_DOCKER_HOST"];
  const host = given ?? (await startPrivateEngine()).host;
  if (!(await answers(host)))
    throw new Error(
      `BERTH_TEST_DOCKER_HOST is ${host}, but no engine answers there: start it, or unset the variable`,
    );
  await beginRun(host);
  await ensureTestImages(host);
  project.provide("dockerHost", host);
  return () => endRun(host);
}
