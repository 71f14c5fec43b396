import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { McpApps } from "../../../src/assistant/agent/mcp/mcp-apps.ts";
import { BERTH_APPS_ID } from "../../../src/base/berth-tool-manifest.ts";
import { systemClock } from "../../../src/base/clock.ts";
import { silentLogger } from "../../../src/base/logger.ts";
import { openTestApi, putApp, type TestApi } from "../../support/api-harness.ts";
import { type CliOptions, runCommandLine } from "../../support/run-cli.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";

let api: TestApi;
let folder: string;
let environment: Record<string, string>;

beforeEach(async () => {
  api = await openTestApi();
  folder = temporaryFolder("serve");
  environment = {
    HOME: folder,
    XDG_RUNTIME_DIR: folder,
    BERTH_URL: await api.listen(),
    BERTH_TOKEN: api.token("admin"),
  };
});

afterEach(async () => {
  await api[Symbol.asyncDispose]();
});

const socketOf = () => join(folder, "assistant/apps", `${BERTH_APPS_ID}.sock`);

function serve(flags: readonly string[], options: CliOptions = {}) {
  return runCommandLine(["tools", "serve", ...flags], { environment, ...options });
}

test("`berth tools serve` serves the tools until it is interrupted, and removes its socket", async () => {
  putApp(api.store, "web");
  let interrupt: (() => void) | undefined;
  const ended = serve([], { onInterruptible: (stop) => (interrupt = stop) });
  await expect.poll(() => existsSync(socketOf())).toBe(true);
  await using apps = new McpApps({
    socketsDir: join(folder, "assistant/apps"),
    activator: {
      activate: () => Promise.reject(new Error("it is there")),
      canStart: async () => false,
    },
    clock: systemClock,
    logger: silentLogger,
  });
  const address = { appId: BERTH_APPS_ID, isActivatable: false };
  const { signal } = new AbortController();
  const result = await apps.call(address, "list_apps", {}, signal);
  expect(result.structured).toMatchObject({ apps: [{ name: "web" }], total: 1 });
  const kept = join(folder, ".local/share/berth/companion/tools/token.json");
  expect(existsSync(kept)).toBe(true);
  interrupt?.();
  expect(await ended).toMatchObject({ code: 0, output: "" });
  expect(existsSync(socketOf())).toBe(false);
  expect((await serve(["--forget-token"])).output).toContain("the next call creates a new one");
  expect(existsSync(kept)).toBe(false);
  expect((await serve(["--forget-token"])).output).toContain("no token to delete");
});

test("--until-input-ends stops the tool server when standard input is closed", async () => {
  expect(await serve(["--until-input-ends"])).toMatchObject({ code: 0 });
  expect(existsSync(socketOf())).toBe(false);
});

test("`berth tools serve` fails without a user session", async () => {
  const { code, errors } = await runCommandLine(["tools", "serve"], {
    environment: { HOME: folder },
  });
  expect(code).toBe(1);
  expect(errors).toContain("XDG_RUNTIME_DIR");
});
