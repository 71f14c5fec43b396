/**
 * The options of `vi.waitFor` for events that are certain to happen, with a timeout in milliseconds. `expect.poll`
 * has the same timeout, from `vitest.config.ts`. On a machine that runs other test files concurrently, even
 * immediate events may take seconds.
 */
export const WAIT_OPTIONS = { timeout: 45_000 } as const;

/**
 * A limit in milliseconds for tests of complexity: linear work stays far below it on any machine, and exponential work
 * exceeds it by minutes.
 */
export const UNBOUNDED_AFTER_MS = 30_000;
