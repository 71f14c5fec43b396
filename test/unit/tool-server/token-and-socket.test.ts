import { statSync } from "node:fs";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { Client } from "@modelcontextprotocol/client";
import { StdioServerTransport } from "@modelcontextprotocol/server/stdio";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { BERTH_APPS_ID } from "../../../src/base/berth-tool-manifest.ts";
import { AssistantToken } from "../../../src/tool-server/assistant-token.ts";
import { ToolHarness } from "../../support/tool-harness.ts";

let harness: ToolHarness;

beforeEach(async () => {
  harness = await ToolHarness.open({ images: { "web:1": {} } });
});

afterEach(async () => {
  await harness[Symbol.asyncDispose]();
});

const deploy = { name: "web", image: "web:1" };

function tokens() {
  return harness.controlPlane.store.tokens
    .list()
    .filter(({ name }) => name.startsWith(BERTH_APPS_ID));
}

function keptIn(folder: string): string {
  return join(harness.stateDir, folder);
}

describe("the tool server's token for the API", () => {
  test("is separate from the user's token, has the smallest sufficient scope, and is in a file that only the user can read", async () => {
    await Promise.all([
      harness.callExpectingSuccess("list_apps"),
      harness.callExpectingSuccess("deploy_app", deploy),
    ]);
    await harness.restart();
    await harness.callExpectingSuccess("list_apps");
    expect(tokens()).toMatchObject([{ name: BERTH_APPS_ID, scope: "write", expiresAt: null }]);
    expect(statSync(keptIn("token.json")).mode & 0o777).toBe(0o600);
    const [undo = ""] = await readdir(keptIn("undo"));
    expect(statSync(join(keptIn("undo"), undo)).mode & 0o777).toBe(0o600);
    expect(statSync(harness.socket).mode & 0o777).toBe(0o600);
    const actors = harness.controlPlane.store.audit
      .list({ limit: 10 })
      .filter(({ action }) => action === "create")
      .map(({ actor }) => actor);
    expect(actors).toEqual([`token:${BERTH_APPS_ID}`]);
  });

  test("that a user has revoked is replaced only after `berth tools serve --forget-token`", async () => {
    await harness.callExpectingSuccess("list_apps");
    const { tokens: store } = harness.controlPlane.store;
    for (const { id } of tokens()) store.revoke(id);
    for (let times = 0; times < 2; times++)
      expect(await harness.callExpectingError("list_apps")).toContain(
        "berth tools serve --forget-token",
      );
    await harness.restart();
    expect(await harness.callExpectingError("deploy_app", deploy)).toContain("was revoked");
    expect(tokens()).toEqual([]);
    const file = keptIn("token.json");
    const token = new AssistantToken({ file, findTarget: () => Promise.reject(new Error()) });
    expect(await token.forget()).toBe(true);
    expect(await token.forget()).toBe(false);
    await harness.callExpectingSuccess("deploy_app", deploy);
    expect(tokens()).toHaveLength(1);
  });

  test("is different for each server, and gets another name if its name is in use", async () => {
    const { port } = new URL(harness.target.url);
    await harness.callExpectingSuccess("list_apps");
    harness.target = { ...harness.target, url: `http://localhost:${port}` };
    await harness.callExpectingSuccess("list_apps");
    const names = tokens().map(({ name }) => name);
    expect(names).toHaveLength(2);
    expect(names).toContain(BERTH_APPS_ID);
    // A new instance of Berth at the same address does not know the tokens of the previous instance.
    harness.target = { ...harness.target, instance: "another" };
    await harness.callExpectingSuccess("list_apps");
    expect(tokens()).toHaveLength(3);
  });

  test("is the user's own token if the user may not create tokens, and is then never stored", async () => {
    harness.target = { ...harness.target, token: harness.token("read") };
    expect(await harness.callExpectingSuccess("list_apps")).toMatchObject({ total: 0 });
    const refusal = await harness.callExpectingError("deploy_app", deploy);
    expect(refusal).toContain("needs a token with the scope write");
    expect(refusal).toContain("may not do that");
    harness.target = { ...harness.target, token: harness.token("write") };
    await harness.callExpectingSuccess("deploy_app", deploy);
    expect(tokens()).toEqual([]);
    expect(await readdir(harness.stateDir)).toEqual(["undo"]);
  });

  test("causes an error that suggests a login if it is missing or invalid", async () => {
    harness.target = { ...harness.target, token: undefined };
    expect(await harness.callExpectingError("list_apps")).toContain("berth login");
    harness.target = { ...harness.target, token: "nonsense" };
    expect(await harness.callExpectingError("list_apps")).toContain("revoked, or has expired");
  });

  test("is replaced if its file is damaged", async () => {
    await harness.callExpectingSuccess("list_apps");
    await writeFile(keptIn("token.json"), "{");
    await harness.callExpectingSuccess("list_apps");
    expect(JSON.parse(await readFile(keptIn("token.json"), "utf8"))).toMatchObject({
      servers: { [harness.target.url]: { token: expect.any(String) } },
    });
  });
});

describe("without a server that answers", () => {
  test("every tool fails with a suggestion", async () => {
    await harness.stopServer();
    for (const [tool, args] of [
      ["list_apps", {}],
      ["deploy_app", deploy],
      ["delete_app", { name: "web" }],
    ] as const) {
      const refusal = await harness.callExpectingError(tool, args);
      expect(refusal).toContain("no Berth server answers");
      expect(refusal).toContain("berth up");
    }
  });

  test("errors contain no paths of the machine", async () => {
    const { findServerTarget } = await import("../../../src/cli/server-target.ts");
    const token = new AssistantToken({
      file: keptIn("token.json"),
      findTarget: async () =>
        findServerTarget({
          environment: { HOME: harness.folder },
          workingDirectory: harness.folder,
          dataDir: join(harness.folder, "nothing"),
        }),
    });
    await expect(token.connect()).rejects.toMatchObject({
      code: "server_unreachable",
      message: expect.not.stringContaining(harness.folder),
      hint: expect.stringContaining("berth login"),
    });
  });
});

describe("the socket of the tool server", () => {
  test("serves clients that use the older version of the protocol", async () => {
    const socket = connect(harness.socket);
    const client = new Client({ name: "old", version: "1" });
    await client.connect(new StdioServerTransport(socket, socket));
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toContain("deploy_app");
    const result = await client.callTool({ name: "list_apps", arguments: {} });
    expect(result.structuredContent).toEqual({ apps: [], total: 0 });
    await client.close();
    socket.destroy();
  });

  test("closes the connection of a client that sends an endless frame, but not for invalid JSON", async () => {
    const socket = connect(harness.socket);
    socket.on("error", () => {});
    const closed = new Promise((resolve) => socket.once("close", resolve));
    socket.write("nonsense\n[]\n");
    expect(await harness.callExpectingSuccess("list_apps")).toMatchObject({ total: 0 });
    socket.write("x".repeat(3 * 2 ** 20));
    await closed;
    expect(await harness.callExpectingSuccess("list_apps")).toMatchObject({ total: 0 });
  });

  test("refuses a second server, and replaces the socket of a crashed one", async () => {
    await expect(harness.serve()).rejects.toMatchObject({ code: "wrong_state" });
    await harness.restart();
    await harness.callExpectingSuccess("list_apps");
  });
});
