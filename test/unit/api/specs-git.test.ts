import { expect, it, onTestFinished } from "vitest";
import type { SpecsGitReport } from "../../../src/controller/port.ts";
import { openTestApi, readErrorBody } from "../../support/api-harness.ts";
import { runCommandLine } from "../../support/run-cli.ts";

const report: SpecsGitReport = {
  url: "https://git.example/team/shop.git",
  ref: null,
  path: ".",
  folder: "shop",
  commit: "0123456789abcdef0123456789abcdef01234567",
  state: "following",
  message: null,
  checkedAt: "2030-01-01T00:05:00.000Z",
  appliedAt: "2030-01-01T00:00:00.000Z",
};
const failing = {
  ...report,
  ref: "main",
  state: "failing",
  message: "git.example is away",
} as const;

async function open() {
  const api = await openTestApi();
  onTestFinished(() => api[Symbol.asyncDispose]());
  return api;
}

it("GET /api/specs shows the repository, or null without one", async () => {
  const api = await open();
  const git = async () => (await api.request({ url: "/api/specs" })).json().git;
  expect(await git()).toBeNull();
  api.control.specsReport = { ...api.control.specsReport, git: report };
  expect(await git()).toEqual({
    url: "https://git.example/team/shop.git",
    ref: null,
    path: ".",
    folder: "shop",
    commit: report.commit,
    state: "following",
    message: null,
    checked_at: "2030-01-01T00:05:00.000Z",
    applied_at: "2030-01-01T00:00:00.000Z",
  });
});

it("POST /api/specs/sync synchronises immediately for a token with the scope write", async () => {
  const api = await open();
  const sync = (headers = {}) => api.request({ method: "POST", url: "/api/specs/sync", headers });
  const none = await sync();
  expect(none.statusCode).toBe(409);
  expect(readErrorBody(none)).toContain("follow no repository");
  api.control.syncReport = failing;
  const answer = await sync();
  expect(answer.statusCode).toBe(200);
  expect(answer.json()).toMatchObject({ state: "failing", message: "git.example is away" });
  const reader = { authorization: `Bearer ${api.token("read")}` };
  expect((await sync(reader)).statusCode).toBe(403);
  const { entries } = (await api.request({ url: "/api/audit" })).json();
  expect(entries).toMatchObject([{ action: "specs_sync", name: "shop" }]);
});

it("berth specs shows the commit, and the reason of a failure", async () => {
  const api = await open();
  const environment = { BERTH_URL: await api.listen(), BERTH_TOKEN: api.token("admin") };
  const run = (...words: string[]) =>
    runCommandLine(["specs", ...words], { environment, nowMs: Date.parse("2030-01-01T00:05:00Z") });
  expect((await run("sync")).code).toBe(1);
  api.control.specsReport = { ...api.control.specsReport, git: report };
  const shown = await run();
  expect(shown.output).toContain(
    "shop/ from https://git.example/team/shop.git following, commit 0123456789ab, applied 5m ago\n",
  );
  expect((await run("--check")).code).toBe(0);
  api.control.specsReport = { ...api.control.specsReport, git: failing };
  expect((await run("--check")).code).toBe(1);
  api.control.syncReport = failing;
  const sync = await run("sync");
  expect(sync.code).toBe(1);
  expect(sync.output).toBe(
    "shop/ from https://git.example/team/shop.git (main) failing, commit 0123456789ab, applied 5m ago: git.example is away\n",
  );
  api.control.syncReport = report;
  expect((await run("sync")).code).toBe(0);
});
