import { mkdir, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { hostname } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openTestApi, type TestApi } from "../../support/api-harness.ts";
import {
  appendEntries,
  createStateDirectory,
  openTestLedger,
} from "../../support/ledger-fixtures.ts";
import { runCommandLine } from "../../support/run-cli.ts";

async function ledgerOf(count: number): Promise<string> {
  const dir = createStateDirectory();
  await using ledger = await openTestLedger(dir);
  await appendEntries(ledger, count);
  return dir;
}

let api: TestApi;
let served: string;
let url: string;
beforeEach(async () => {
  served = await ledgerOf(5);
  const value = { key: "assistant_data_dir", value: served, source: "flag", origin: null } as const;
  api = await openTestApi({ values: [value] });
  url = await api.listen();
});
afterEach(() => api[Symbol.asyncDispose]());

const run = (words: readonly string[], environment: Record<string, string> = {}) =>
  runCommandLine(words, {
    environment: { BERTH_TOKEN: api.token("read"), ...environment },
    workingDirectory: api.dataDir,
  });

async function forward(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { authorization = "" } = request.headers;
  const answer = await fetch(`${url}${request.url}`, { headers: { authorization } });
  const text = (await answer.text()).replaceAll(JSON.stringify(hostname()), '"elsewhere"');
  response.writeHead(answer.status, { "content-type": "application/json" }).end(text);
}

/** Starts a server that answers as the API does, but from a machine with another name, as behind an SSH tunnel. */
async function openServerElsewhere(): Promise<AsyncDisposable & { readonly url: string }> {
  const server = createServer((request, response) => void forward(request, response));
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  return {
    url: `http://127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
    },
  };
}

describe("berth ledger", () => {
  it("verifies the ledger of the named server's assistant, and prints the ledger's folder", async () => {
    const { code, output } = await run(["ledger", "verify", "--url", url]);
    expect(code).toBe(0);
    expect(output).toContain(`ledger ${served}`);
    expect(output).toMatch(/^whole: 6 entries/);
    const json = await run(["ledger", "verify", "--json"], { BERTH_URL: url });
    expect(JSON.parse(json.output)).toMatchObject({ status: "whole", data_dir: served });
  });

  it("finds the assistant of the server whose data directory is given", async () => {
    const ready = {
      api: url,
      data_dir: api.dataDir,
      specs_dir: "/",
      instance: api.store.instanceId,
      pid: process.pid,
      version: "1.2.3",
      docker_host: "unix:///x",
    };
    await mkdir(join(api.dataDir, "run"), { recursive: true });
    await writeFile(join(api.dataDir, "run/berth.json"), JSON.stringify(ready));
    const { output } = await run(["ledger", "verify", "--data-dir", api.dataDir]);
    expect(output).toContain(`ledger ${served}`);
  });

  it("never verifies the ledger of this machine for a server that is on another machine or does not answer", async () => {
    const own = await ledgerOf(2);
    const away = await run(["ledger", "verify", "--url", "http://127.0.0.1:9"], { HOME: own });
    expect([away.code, away.output]).toEqual([1, ""]);
    await using elsewhere = await openServerElsewhere();
    const other = await run(["ledger", "verify", "--url", elsewhere.url]);
    expect([other.code, other.output]).toEqual([2, ""]);
    expect(other.errors).toContain("is on another machine");
  });
});

describe("berth chat", () => {
  it("talks to the assistant that the server names", async () => {
    api.control.assistantReport = { ...api.control.assistantReport, url: "http://127.0.0.1:9" };
    const { code, errors } = await run(["chat", "Well then", "--url", url]);
    expect(code).toBe(1);
    expect(errors).toContain("no assistant answers at http://127.0.0.1:9");
  });

  it("refuses flags that name both a server and an assistant", async () => {
    const { code } = await run(["chat", "Well then", "--url", url, "--port", "9"]);
    expect(code).toBe(2);
  });
});
