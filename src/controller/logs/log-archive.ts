import type { LogLine } from "../runtime/port.ts";

/**
 * Keeps the last lines of containers that are removed, so that the log of an App survives a
 * redeploy. Losing lines is never a reason to stop a rollout: `keep` does not throw, but for an abort.
 */
export interface LogArchive {
  keep(
    app: string,
    container: { readonly id: string; readonly name: string },
    signal: AbortSignal,
  ): Promise<void>;
  /** Kept lines of an App, oldest first. */
  read(app: string): Promise<readonly ArchivedLine[]>;
  /** The App is gone. */
  drop(app: string): Promise<void>;
}

export interface ArchivedLine extends LogLine {
  readonly container: string;
}

/** Remembers nothing: for the simulation, where containers say nothing. */
export const noArchive: LogArchive = {
  keep: async () => {},
  read: async () => [],
  drop: async () => {},
};
