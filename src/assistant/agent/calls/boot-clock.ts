import { uptime } from "node:os";

/** Time since the machine started. Unlike `Clock`, it cannot be set, and it continues while the machine sleeps. */
export interface BootClock {
  /** Milliseconds since the machine started, in steps of about 10 ms. */
  now(): number;
}

/**
 * Reads os.uptime(), which comes from /proc/uptime and counts like CLOCK_BOOTTIME. process.hrtime() is
 * CLOCK_MONOTONIC, which stops while the machine sleeps: a call parked before the lid was closed would still wait for
 * confirmation the next day.
 */
export const systemBootClock: BootClock = { now: () => uptime() * 1_000 };
