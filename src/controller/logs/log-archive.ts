import type { LogLine } from "../runtime/port.ts";

/**
 * Keeps the last lines of containers that are removed, so that the log of an App survives a redeploy. A failure never
 * stops a rollout: `keep` throws only when the signal aborts.
 */
export interface LogArchive {
  keep(
    app: string,
    container: { readonly id: string; readonly name: string },
    signal: AbortSignal,
  ): Promise<void>;
  /** Yields the kept lines of an App, oldest first. */
  read(app: string): Promise<readonly ArchivedLine[]>;
  /** Removes the kept lines of a deleted App. */
  drop(app: string): Promise<void>;
}

export interface ArchivedLine extends LogLine {
  readonly container: string;
}

/** An archive that keeps nothing, for the simulation, whose containers write no logs. */
export const noArchive: LogArchive = {
  keep: async () => {},
  read: async () => [],
  drop: async () => {},
};
