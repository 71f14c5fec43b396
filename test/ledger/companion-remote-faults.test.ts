import { rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { RemoteState } from "../../src/assistant/remote/port.ts";
import { fillDisk } from "../support/fill-disk.ts";
import type { FrontendClient } from "../support/frontend-client.ts";
import { mountFileSystem } from "../support/mount-file-system.ts";
import { findFaultyResponse } from "../support/provider/faulty-responses.ts";
import {
  type HttpChat,
  LOCAL_MODEL,
  PROVIDER_KEY,
  REMOTE_MODEL,
  RemoteCompanionHarness,
} from "../support/remote-companion-harness.ts";
import { type Tracer, trace } from "../support/tracer.ts";

const LEDGER_UNAVAILABLE = "dev.assistant.Error.LedgerUnavailable";

const open = () => RemoteCompanionHarness.open({ script: findFaultyResponse });

/** All changes that a user can make. */
const summarizeState = ({ providers, consent, login }: RemoteState) => ({
  providers: providers.map(({ id, base_url, credential }) => ({ id, base_url, credential })),
  consent,
  pending: login.pending,
});

const runTurnToEnd = async (person: FrontendClient, model: string) => {
  const options = { lane: "chat", model_hint: model };
  const { end } = await person.waitForEnd(await person.ask("A secret", options));
  return `${end?.status}/${String(end?.detail["code"])}`;
};

/** Asserts that nothing is sent or changed, and that callers receive the reason. */
async function assertNothingPasses(desk: RemoteCompanionHarness): Promise<void> {
  const before = summarizeState(await desk.frontend.getRemoteState());
  const asked =
    desk.cloudProvider.requests.length + desk.localProvider.requests.filter(isPost).length;
  for (const model of [REMOTE_MODEL, LOCAL_MODEL]) {
    expect(await runTurnToEnd(desk.frontend, model)).toBe("failed/ledger_unavailable");
    for (const refused of [desk.chat(model, "A secret"), desk.embed(model, "A secret")])
      expect(await refused.result).toMatchObject({ status: 503, code: "ledger_unavailable" });
  }
  const changes: readonly (readonly [string, string, ...(string | boolean)[]])[] = [
    ["AddProvider", "sss", "other", "", "http://127.0.0.1:1234/v1"],
    ["RemoveProvider", "s", "cloud"],
    ["SetKey", "ss", "cloud", "sk-another"],
    ["ClearKey", "s", "cloud"],
    ["SetConsent", "sb", "files", true],
    ["BeginLogin", "s", "openrouter"],
    ["ListModels", "s", "cloud"],
  ];
  for (const [member, signature, ...args] of changes)
    expect([member, await desk.getOutcome(member, signature, ...args)]).toEqual([
      member,
      LEDGER_UNAVAILABLE,
    ]);
  expect(summarizeState(await desk.frontend.getRemoteState())).toEqual(before);
  expect(
    desk.cloudProvider.requests.length + desk.localProvider.requests.filter(isPost).length,
  ).toBe(asked);
}

const isPost = ({ method }: { readonly method: string }) => method === "POST";

/** Asserts that a revocation that cannot be recorded still ends the running request. */
async function assertConsentRevoked(
  desk: RemoteCompanionHarness,
  underWay: HttpChat,
): Promise<void> {
  expect(await desk.getOutcome("SetConsent", "sb", "prompt", false)).not.toBe("answered");
  expect(await underWay.result).toMatchObject({ code: "consent_required" });
  expect((await desk.frontend.getRemoteState()).consent["prompt"]).toBe(false);
  await expect.poll(() => desk.listChatRequests().at(-1)?.state).toBe("left");
}

/** Asserts that requests succeed again with the stored key. */
async function assertEverythingPasses(desk: RemoteCompanionHarness, name: string): Promise<void> {
  const again = () => desk.getOutcome("SetConsent", "sb", "prompt", true);
  await expect.poll(again, { timeout: 30_000, interval: 50 }).toBe("answered");
  expect(await desk.chat(REMOTE_MODEL, "Hello").readAnswer()).toBe("You said: Hello");
  expect(await runTurnToEnd(desk.frontend, REMOTE_MODEL)).toBe("completed/ok");
  expect((await desk.embed("remote:cloud:test-embedder", "Hello").result).status).toBe(200);
  const { baseUrl } = desk.cloudProvider;
  expect(await desk.getOutcome("AddProvider", "sss", name, "", baseUrl)).toBe("answered");
  expect(await desk.getOutcome("SetKey", "ss", name, PROVIDER_KEY)).toBe("answered");
  expect(await desk.getOutcome("ListModels", "s", name)).toBe("answered");
  expect(await desk.countQueries()).toEqual({ active: 0, pending: 0 });
}

/** Verifies the ledger after its writer has ended. Returns `0 whole` for a whole ledger. */
async function verifyLedger(desk: RemoteCompanionHarness): Promise<string> {
  await desk.companion.stop();
  const { code, stdout } = await desk.companion.berth(["ledger", "verify", "--user"]);
  return `${code} ${stdout.split(":")[0]}`;
}

async function beginChat(desk: RemoteCompanionHarness): Promise<HttpChat> {
  const underWay = desk.chat(REMOTE_MODEL, "Tell me #hang");
  await underWay.begun;
  return underWay;
}

async function injectFaults(
  desk: RemoteCompanionHarness,
  calls: string,
  code: string,
): Promise<Tracer> {
  const files = ["", "-wal", "-shm"].flatMap((end) => [
    "-P",
    join(desk.dataDir, `ledger/ledger.db${end}`),
  ]);
  const inject = ["-e", `trace=${calls}`, "-e", `inject=${calls}:error=${code}`];
  const log = join(desk.companion.home, "strace.log");
  const tracer = await trace(desk.companion.ready.pid, log, ["-f", ...files, ...inject]);
  desk.defer(() => tracer.detach());
  return tracer;
}

/** Mounts a file system until the end of the test. A process that still runs would write to it. */
function mount(
  desk: RemoteCompanionHarness,
  at: string,
  args: readonly string[],
): () => Promise<void> {
  const unmount = mountFileSystem(at, args);
  desk.defer(() => unmount("at once"));
  desk.defer(() => desk.companion.stop("SIGKILL"));
  return unmount;
}

const errors = [
  ["fsync,fdatasync", "EIO"],
  ["pwrite64", "EIO"],
  ["pwrite64,ftruncate,openat", "EROFS"],
  ["pwrite64", "ENOSPC"],
] as const;

describe("a ledger that cannot be written", () => {
  it("because system calls fail blocks all requests to providers until the fault ends", async () => {
    await using desk = await open();
    for (const [index, [calls, code]] of errors.entries()) {
      const underWay = await beginChat(desk);
      const tracer = await injectFaults(desk, calls, code);
      await assertNothingPasses(desk);
      await assertConsentRevoked(desk, underWay);
      await tracer.detach();
      await assertEverythingPasses(desk, `after-${index}`);
    }
    expect(await verifyLedger(desk)).toBe("0 whole");
  });

  it("because its directory is read-only at the start blocks all requests to providers until it is writable", async () => {
    await using desk = await open();
    await desk.companion.stop("SIGKILL");
    const directory = join(desk.dataDir, "ledger");
    const unmount = mount(desk, directory, ["--bind", "-o", "ro", directory]);
    await desk.companion.start();
    await assertNothingPasses(desk);
    await unmount();
    await assertEverythingPasses(desk, "after");
    expect(await verifyLedger(desk)).toBe("0 whole");
  });

  it("because the disk is full blocks all requests to providers until there is space", async () => {
    await using desk = await RemoteCompanionHarness.open({
      script: findFaultyResponse,
      isStarted: false,
    });
    mount(desk, desk.dataDir, ["-t", "tmpfs", "-o", "size=40m,mode=0700", "tmpfs"]);
    await desk.companion.start();
    await desk.configureProvider();
    const underWay = await beginChat(desk);
    const ballast = join(desk.dataDir, "ballast");
    // The files have free pages, so it takes some entries until the disk is full.
    for (let round = 0, end = ""; end !== "ledger_unavailable"; round += 1) {
      fillDisk(ballast);
      const { code = "ok" } = await desk.chat(LOCAL_MODEL, `Fill ${round}`).result;
      end = code;
      expect(["ok", "ledger_unavailable"]).toContain(end);
    }
    await assertNothingPasses(desk);
    await assertConsentRevoked(desk, underWay);
    rmSync(ballast);
    await assertEverythingPasses(desk, "after");
    expect(await verifyLedger(desk)).toBe("0 whole");
  });
});
