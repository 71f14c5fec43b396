import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { CommandStarter } from "../../src/assistant/agent/mcp/activation/command-starter.ts";
import { StarterChain } from "../../src/assistant/agent/mcp/activation/starter-chain.ts";
import { McpApps } from "../../src/assistant/agent/mcp/mcp-apps.ts";
import { BERTH_APPS_ID } from "../../src/base/berth-tool-manifest.ts";
import { systemClock } from "../../src/base/clock.ts";
import { silentLogger } from "../../src/base/logger.ts";
import { openTestApi, putApp } from "../support/api-harness.ts";

const program = join(import.meta.dirname, "../../bin/berth");

test("the built program serves Berth's tools on demand, and exits when the process that started it exits", async () => {
  await using api = await openTestApi();
  putApp(api.store, "web");
  const folder = mkdtempSync(join(tmpdir(), "berth-tools-"));
  const socketsDir = join(folder, "assistant/apps");
  const starter = new CommandStarter({
    commands: new Map([
      [
        BERTH_APPS_ID,
        {
          argv: [process.execPath, program, "tools", "serve", "--until-input-ends"],
          environment: {
            HOME: folder,
            XDG_RUNTIME_DIR: folder,
            BERTH_URL: await api.listen(),
            BERTH_TOKEN: api.token("admin"),
          },
        },
      ],
    ]),
    clock: systemClock,
    logger: silentLogger,
  });
  try {
    const apps = new McpApps({
      socketsDir,
      activator: new StarterChain([starter]),
      clock: systemClock,
      logger: silentLogger,
    });
    const address = { appId: BERTH_APPS_ID, isActivatable: true };
    const { signal } = new AbortController();
    const listed = await apps.call(address, "list_apps", {}, signal);
    expect(listed.structured).toMatchObject({ apps: [{ name: "web" }], total: 1 });
    const named = api.store.tokens.list().map(({ name, scope }) => [name, scope]);
    expect(named).toContainEqual([BERTH_APPS_ID, "write"]);
    await apps[Symbol.asyncDispose]();
  } finally {
    await starter[Symbol.asyncDispose]();
    expect(existsSync(join(socketsDir, `${BERTH_APPS_ID}.sock`))).toBe(false);
    rmSync(folder, { recursive: true, force: true });
  }
});
