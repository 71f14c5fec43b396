import type Docker from "dockerode";
import { inject } from "vitest";
import { connectTo, TEST_LABEL } from "./engine-client.ts";

/** Returns the address of the tests' engine. Available only in test projects that use engine-setup.ts. */
export function dockerHost(): string {
  return inject("dockerHost");
}

/** Returns a plain Docker client, for operations that a user would do with the `docker` command. */
export function dockerClient(): Docker {
  return connectTo(dockerHost());
}

/**
 * Returns the labels for objects that a test itself creates on the engine. Objects with these labels are removed
 * after the run.
 */
export function testLabels(): Record<string, string> {
  return { [TEST_LABEL]: process.env["BERTH_TEST_RUN"] ?? String(process.pid) };
}
