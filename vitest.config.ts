import { defineConfig } from "vitest/config";

const slow = { testTimeout: 120_000, hookTimeout: 180_000 };

export default defineConfig({
  test: {
    passWithNoTests: false,
    projects: [
      {
        test: {
          name: "unit",
          include: ["test/unit/**/*.test.ts", "test/tidy.test.ts"],
          testTimeout: 20_000,
        },
      },
      { test: { name: "contract", include: ["test/contract/**/*.test.ts"], testTimeout: 20_000 } },
      { test: { name: "git", include: ["test/git/**/*.test.ts"], ...slow } },
      { test: { name: "ingress", include: ["test/ingress/**/*.test.ts"], ...slow } },
      { test: { name: "sim", include: ["test/sim/**/*.test.ts"], ...slow } },
      { test: { name: "ledger", include: ["test/ledger/**/*.test.ts"], ...slow } },
      { test: { name: "assistant", include: ["test/assistant/**/*.test.ts"], ...slow } },
      { test: { name: "model", include: ["test/model/**/*.test.ts"], pool: "forks", ...slow } },
      {
        test: {
          name: "docker",
          include: ["test/docker/**/*.test.ts"],
          globalSetup: ["test/support/engine-setup.ts"],
          pool: "forks",
          maxWorkers: 2,
          // Projects with other numbers of workers run one group after the other.
          sequence: { groupOrder: 1 },
          ...slow,
        },
      },
      {
        test: {
          name: "e2e",
          include: ["test/e2e/**/*.test.ts"],
          globalSetup: ["test/support/engine-setup.ts"],
          pool: "forks",
          maxWorkers: 2,
          // Projects with other numbers of workers run one group after the other.
          sequence: { groupOrder: 1 },
          ...slow,
        },
      },
    ],
  },
});
