import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";
import { WAIT_OPTIONS } from "./test/support/wait-limits.ts";

/**
 * Options for waits in tests. On a machine that runs other tests concurrently, even immediate
 * events may take seconds.
 */
const expect = { poll: WAIT_OPTIONS };
/** Before version 22.18, Node.js starts a worker thread from TypeScript only with these flags. */
const execArgv = process.features.typescript
  ? []
  : ["--experimental-strip-types", "--disable-warning=ExperimentalWarning"];
/**
 * The test files of a project share processes. A process of its own for each file would load all modules again, which
 * takes a tenth of the suite's time. The time limits here only end tests that hang; waits inside tests have shorter
 * limits, and their errors name the missing condition.
 */
const fast = { expect, execArgv, isolate: false, testTimeout: 60_000, hookTimeout: 60_000 };
const slow = { expect, execArgv, isolate: false, testTimeout: 300_000, hookTimeout: 300_000 };
/** Options for projects whose tests measure or limit their own process. */
const isolated = { ...slow, isolate: true, pool: "forks" } as const;

/**
 * The number of workers: three more than cores, because most tests wait for an engine, a server or a timer, but at
 * most five, because all workers share one engine. The number is the same for all projects, because vitest runs
 * projects with different numbers one after the other.
 */
const maxWorkers = Math.min(availableParallelism() + 3, 5);

export default defineConfig({
  test: {
    passWithNoTests: false,
    maxWorkers,
    projects: [
      {
        test: {
          name: "unit",
          include: ["test/unit/**/*.test.ts", "test/tidy.test.ts"],
          ...fast,
        },
      },
      {
        test: {
          name: "integration",
          include: ["test/integration/**/*.test.ts"],
          ...slow,
        },
      },
      {
        test: {
          name: "contract",
          include: ["test/contract/**/*.test.ts"],
          ...fast,
        },
      },
      { test: { name: "git", include: ["test/git/**/*.test.ts"], ...slow } },
      {
        test: { name: "ingress", include: ["test/ingress/**/*.test.ts"], ...slow },
      },
      { test: { name: "sim", include: ["test/sim/**/*.test.ts"], ...slow } },
      { test: { name: "models", include: ["test/models/**/*.test.ts"], ...slow } },
      { test: { name: "ledger", include: ["test/ledger/**/*.test.ts"], ...slow } },
      {
        test: {
          name: "assistant",
          include: ["test/assistant/**/*.test.ts"],
          ...slow,
        },
      },
      {
        test: {
          name: "dbus",
          include: ["test/dbus/**/*.test.ts"],
          pool: "forks",
          ...slow,
        },
      },
      { test: { name: "model", include: ["test/model/**/*.test.ts"], ...isolated } },
      // Tests with programs that Berth neither contains nor needs, such as OpenSSH. Only `npm run
      // test:peers` runs them.
      {
        test: {
          name: "peers",
          include: ["test/peers/**/*.test.ts"],
          globalSetup: ["test/support/engine-setup.ts"],
          ...isolated,
        },
      },
      // Models with trained weights, which `npm run models:test` fetches: `npm run test:trained`.
      {
        test: {
          name: "trained",
          include: ["test/trained/**/*.test.ts"],
          globalSetup: ["test/support/trained-models/trained-setup.ts"],
          pool: "forks",
          ...slow,
        },
      },
      // These tests use the built program and the real llama.cpp, but no container engine.
      {
        test: {
          name: "e2e-models",
          include: ["test/e2e/models/**/*.test.ts"],
          pool: "forks",
          ...slow,
        },
      },
      {
        test: {
          name: "docker",
          include: ["test/docker/**/*.test.ts"],
          globalSetup: ["test/support/engine-setup.ts"],
          ...isolated,
        },
      },
      {
        test: {
          name: "e2e",
          include: ["test/e2e/**/*.test.ts"],
          exclude: ["test/e2e/models/**"],
          globalSetup: ["test/support/engine-setup.ts"],
          pool: "forks",
          ...slow,
        },
      },
    ],
  },
});
