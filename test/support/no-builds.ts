import type { AppBuilds } from "../../src/controller/builds/port.ts";

/** The builds of a control plane that cannot build: every source fails with a message. */
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
