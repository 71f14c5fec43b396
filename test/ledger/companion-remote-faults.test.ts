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

/** Returns the parts of the Remote1 state that a user can change: the providers, the consent and a pending login. */
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

/** Asserts that no request is sent, that no setting changes, and that callers get the error `ledger_unavailable`. */
async function assertNothingPasses(harness: RemoteCompanionHarness): Promise<void> {
  const before = summarizeState(await harness.frontend.getRemoteState());
  const asked =
    harness.cloudProvider.requests.length + harness.localProvider.requests.filter(isPost).length;
  for (const model of [REMOTE_MODEL, LOCAL_MODEL]) {
    expect(await runTurnToEnd(harness.frontend, model)).toBe("failed/ledger_unavailable");
    for (const refused of [harness.chat(model, "A secret"), harness.embed(model, "A secret")])
      expect(await refused.result).toMatchObject({ status: 503, code: "ledger_unavailable" });
  }
  const changes: readonly (readonly [string, string, ...(string | boolean)[]])[] = [
    ["AddProvider", "sss", "other", "", "http://127.0.0.1:1234/v1"],
    ["RemoveProvider", "s", "cloud"],
    ["SetKey", "ss", "cloud", "sk-another"],
    ["ClearKey", "s", "cloud"],
    ["SetConsent", "sb", "files", true],
    ["SetConsent", "sb", "prompt", false],
    ["BeginLogin", "s", "openrouter"],
    ["ListModels", "s", "cloud"],
  ];
  for (const [member, signature, ...args] of changes)
    expect([member, await harness.getOutcome(member, signature, ...args)]).toEqual([
      member,
      LEDGER_UNAVAILABLE,
    ]);
  expect(summarizeState(await harness.frontend.getRemoteState())).toEqual(before);
  expect(
    harness.cloudProvider.requests.length + harness.localProvider.requests.filter(isPost).length,
  ).toBe(asked);
}

const isPost = ({ method }: { readonly method: string }) => method === "POST";

/** Asserts that consent can be revoked again, which ends the running request. */
async function assertConsentRevoked(
  harness: RemoteCompanionHarness,
  underWay: HttpChat,
): Promise<void> {
  await waitForConsent(harness, false);
  expect(await underWay.result).toMatchObject({ code: "consent_required" });
  expect((await harness.frontend.getRemoteState()).consent["prompt"]).toBe(false);
  await expect.poll(() => harness.listChatRequests().at(-1)?.state).toBe("left");
}

/** Changes the consent for prompts as soon as the ledger can be written again. */
async function waitForConsent(harness: RemoteCompanionHarness, isAllowed: boolean): Promise<void> {
  const attempt = () => harness.getOutcome("SetConsent", "sb", "prompt", isAllowed);
  await expect.poll(attempt, { timeout: 30_000, interval: 50 }).toBe("answered");
}

/** Asserts that requests succeed again with the stored key. */
async function assertEverythingPasses(
  harness: RemoteCompanionHarness,
  name: string,
): Promise<void> {
  await waitForConsent(harness, true);
  expect(await harness.chat(REMOTE_MODEL, "Hello").readAnswer()).toBe("You said: Hello");
  expect(await runTurnToEnd(harness.frontend, REMOTE_MODEL)).toBe("completed/ok");
  expect((await harness.embed("remote:cloud:test-embedder", "Hello").result).status).toBe(200);
  const { baseUrl } = harness.cloudProvider;
  expect(await harness.getOutcome("AddProvider", "sss", name, "", baseUrl)).toBe("answered");
  expect(await harness.getOutcome("SetKey", "ss", name, PROVIDER_KEY)).toBe("answered");
  expect(await harness.getOutcome("ListModels", "s", name)).toBe("answered");
  expect(await harness.countQueries()).toEqual({ active: 0, pending: 0 });
}

/** Verifies the ledger after its writer has ended. Returns the exit code and the verdict, such as `0 whole`. */
async function verifyLedger(harness: RemoteCompanionHarness): Promise<string> {
  await harness.companion.stop();
  const { code, stdout } = await harness.companion.berth(["ledger", "verify", "--user"]);
  return `${code} ${stdout.split(":")[0]}`;
}

async function beginChat(harness: RemoteCompanionHarness): Promise<HttpChat> {
  const underWay = harness.chat(REMOTE_MODEL, "Tell me #hang");
  await underWay.begun;
  return underWay;
}

async function injectFaults(
  harness: RemoteCompanionHarness,
  calls: string,
  code: string,
): Promise<Tracer> {
  const files = ["", "-wal", "-shm"].flatMap((end) => [
    "-P",
    join(harness.dataDir, `ledger/ledger.db${end}`),
  ]);
  const inject = ["-e", `trace=${calls}`, "-e", `inject=${calls}:error=${code}`];
  const log = join(harness.companion.home, "strace.log");
  const tracer = await trace(harness.companion.ready.pid, log, ["-f", ...files, ...inject]);
  harness.defer(() => tracer.detach());
  return tracer;
}

/** Mounts a file system until the end of the test, and unmounts it even if a process still uses it. */
function mount(
  harness: RemoteCompanionHarness,
  at: string,
  args: readonly string[],
): () => Promise<void> {
  const unmount = mountFileSystem(at, args);
  harness.defer(() => unmount("at once"));
  harness.defer(() => harness.companion.stop("SIGKILL"));
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
    await using harness = await open();
    for (const [index, [calls, code]] of errors.entries()) {
      const underWay = await beginChat(harness);
      const tracer = await injectFaults(harness, calls, code);
      await assertNothingPasses(harness);
      await tracer.detach();
      await assertConsentRevoked(harness, underWay);
      await assertEverythingPasses(harness, `after-${index}`);
    }
    expect(await verifyLedger(harness)).toBe("0 whole");
  });

  it("because its directory is read-only at the start blocks all requests to providers until it is writable", async () => {
    await using harness = await open();
    await harness.companion.stop("SIGKILL");
    const directory = join(harness.dataDir, "ledger");
    const unmount = mount(harness, directory, ["--bind", "-o", "ro", directory]);
    await harness.companion.start();
    await assertNothingPasses(harness);
    await unmount();
    await assertEverythingPasses(harness, "after");
    expect(await verifyLedger(harness)).toBe("0 whole");
  });

  it("because the disk is full blocks all requests to providers until there is space", async () => {
    await using harness = await RemoteCompanionHarness.open({
      script: findFaultyResponse,
      isStarted: false,
    });
    mount(harness, harness.dataDir, ["-t", "tmpfs", "-o", "size=40m,mode=0700", "tmpfs"]);
    await harness.companion.start();
    await harness.configureProvider();
    const underWay = await beginChat(harness);
    const ballast = join(harness.dataDir, "ballast");
    // The ledger's database has free pages, so appends still succeed on the full disk until these pages are used up.
    for (let round = 0, end = ""; end !== "ledger_unavailable"; round += 1) {
      fillDisk(ballast);
      const { code = "ok" } = await harness.chat(LOCAL_MODEL, `Fill ${round}`).result;
      end = code;
      expect(["ok", "ledger_unavailable"]).toContain(end);
    }
    await assertNothingPasses(harness);
    rmSync(ballast);
    await assertConsentRevoked(harness, underWay);
    await assertEverythingPasses(harness, "after");
    expect(await verifyLedger(harness)).toBe("0 whole");
  });
});
