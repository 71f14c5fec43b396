import { statfs } from "node:fs/promises";
import type { Clock } from "../../base/clock.ts";
import { formatBytes } from "../../base/units.ts";
import type { EngineHost } from "../engine-host.ts";

/**
 * The free space that a build needs. A small base image with the dependencies of a typical app has some hundred
 * megabytes of layers, and the source briefly exists twice: unpacked, and at the engine.
 */
export const FREE_BYTES_MIN = 2 ** 30;
/** The interval at which the free space is measured while a build waits for it. */
export const SPACE_CHECK_MS = 10_000;
/**
 * The delay before a build that ran out of space is tried again, if the engine is on another machine whose free space
 * is unknown.
 */
const REMOTE_RETRY_MS = 5 * 60_000;
/**
 * A build that ran out of space needs more space than was free at its start. It is tried again when the free space
 * has grown by this share, and at the latest after LOCAL_RETRY_MS, because another program may have used the space
 * temporarily.
 */
const GROWTH_MIN = 0.1;
const LOCAL_RETRY_MS = 60 * 60_000;

/**
 * The free bytes of two disks: of the engine, and of Berth's data directory. `engine` is undefined if the engine runs
 * on another machine.
 */
export interface FreeSpace {
  readonly engine: number | undefined;
  readonly own: number;
}

/** A build that ran out of space, although there seemed to be enough at its start. */
export interface SpaceShortage {
  readonly message: string;
  readonly atStart: FreeSpace;
  /** The time, in epoch milliseconds, when the build is tried again even if no space has become free. */
  readonly retryAtMs: number;
}

/** The reason why a build waits for free disk space. */
export interface SpaceWait {
  readonly message: string;
  /** The time, in epoch milliseconds, when the build starts even if no space has become free; null means never. */
  readonly retryAtMs: number | null;
}

export interface BuildSpaceOptions {
  readonly runtime: Pick<EngineHost, "freeBytes">;
  readonly dataDir: string;
  readonly clock: Clock;
  readonly bytesMin: number;
}

/** Decides if the disks of the engine and of the data directory have enough space for a build. */
export class BuildSpace {
  readonly #options: BuildSpaceOptions;

  constructor(options: BuildSpaceOptions) {
    this.#options = options;
  }

  /** Measures the free space. Throws the errors of the engine and of the system. */
  async measure(signal: AbortSignal): Promise<FreeSpace> {
    const engine = await this.#options.runtime.freeBytes(signal);
    const { bavail, bsize } = await statfs(this.#options.dataDir);
    return { engine, own: bavail * bsize };
  }

  /**
   * Returns the reason why a build has to wait for free disk space; undefined if it may start. `shortage` describes how
   * the last attempt of the build ran out of space; undefined if it did not.
   */
  findWait(free: FreeSpace, shortage: SpaceShortage | undefined): SpaceWait | undefined {
    const message = this.#explainLack(free);
    if (message !== undefined) return { message, retryAtMs: null };
    if (!shortage || this.#options.clock.now() >= shortage.retryAtMs) return undefined;
    const { atStart, retryAtMs } = shortage;
    const hasGrown =
      free.own >= atStart.own * (1 + GROWTH_MIN) ||
      (free.engine ?? 0) >= (atStart.engine ?? Number.POSITIVE_INFINITY) * (1 + GROWTH_MIN);
    // If the engine is on another machine, that machine's disk was full, so more free space on this machine is no
    // reason to retry.
    if (hasGrown && atStart.engine !== undefined) return undefined;
    return { message: shortage.message, retryAtMs };
  }

  createShortage(message: string, atStart: FreeSpace): SpaceShortage {
    const delayMs = atStart.engine === undefined ? REMOTE_RETRY_MS : LOCAL_RETRY_MS;
    return { message, atStart, retryAtMs: this.#options.clock.now() + delayMs };
  }

  #explainLack({ engine, own }: FreeSpace): string | undefined {
    const { bytesMin } = this.#options;
    const explain = (free: number, where: string) =>
      `${formatBytes(free)} are free ${where}, but a build needs ${formatBytes(bytesMin)}`;
    if (engine !== undefined && engine < bytesMin)
      return `${explain(engine, "on the disk of the engine's images")}; find out what to remove with: docker system df`;
    return own < bytesMin
      ? `${explain(own, "in Berth's data directory")}; free some space there`
      : undefined;
  }
}
