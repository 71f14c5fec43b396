import { uptime } from "node:os";

/** Time since the machine started. Unlike `Clock`, it cannot be set, and it continues while the machine sleeps. */
export interface BootClock {
  /** Milliseconds, exact to about 10. */
  now(): number;
}

/**
 * os.uptime() reads /proc/uptime, which is CLOCK_BOOTTIME. process.hrtime() is CLOCK_MONOTONIC, which stops while
 * the machine sleeps: a call parked before the lid was closed would still be open the next day.
 */
export const systemBootClock: BootClock = { now: () => uptime() * 1_000 };
