import type Docker from "dockerode";
import { inject } from "vitest";
import { connectTo, TEST_LABEL } from "./engine-client.ts";

/** Where the tests' engine answers; only in projects that have engine-setup.ts. */
export function dockerHost(): string {
  return inject("dockerHost");
}

/** A bare client, for what a person would do with the docker command. */
export function dockerClient(): Docker {
  return connectTo(dockerHost());
}

/** For everything that a test makes by hand on the engine: it is swept after the run. */
export function testLabels(): Record<string, string> {
  return { [TEST_LABEL]: process.env["BERTH_TEST_RUN"] ?? String(process.pid) };
}
