/**
 * How long `vi.waitFor` waits for what is sure to come, in milliseconds; `expect.poll` has the same from
 * `vitest.config.ts`. A machine that is busy with three other files takes seconds for what takes none alone.
 */
export const WAIT_OPTIONS = { timeout: 15_000 } as const;

/** In milliseconds. Work that is bounded takes a small part of it on any machine; unbounded work takes minutes. */
export const UNBOUNDED_AFTER_MS = 30_000;
