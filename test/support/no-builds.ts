import type { AppBuilds } from "../../src/controller/builds/port.ts";

/** For a control plane without a place to build: every source leads nowhere, and says so. */
export const noBuilds: AppBuilds = {
  source: () => ({
    type: "failed",
    reason: "BuildsNotAvailable",
    message: "this Berth builds nothing; give an image",
    terminal: true,
  }),
  ensure: () => ({
    type: "failed",
    id: 0,
    reason: "BuildsNotAvailable",
    message: "this Berth builds nothing; give an image",
    terminal: true,
  }),
  clearResult: () => {},
  forget: () => Promise.resolve(),
};
