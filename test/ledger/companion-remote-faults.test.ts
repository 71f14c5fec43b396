import { rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { RemoteState } from "../../src/assistant/remote/port.ts";
import { fillUp } from "../support/fill-up.ts";
import { mounted } from "../support/mounted.ts";
import type { OverlayCaller } from "../support/overlay-caller.ts";
import { faultyTurn } from "../support/provider/faulty-turns.ts";
import { FAR, type HttpChat, KEY, NEAR, RemoteDesk } from "../support/remote-desk.ts";
import { type Tracer, trace } from "../support/tracer.ts";

const LEDGER_UNAVAILABLE = "dev.assistant.Error.LedgerUnavailable";

const open = () => RemoteDesk.open({ script: faultyTurn });

/** All that a person changes. */
const settled = ({ providers, consent, login }: RemoteState) => ({
  providers: providers.map(({ id, base_url, credential }) => ({ id, base_url, credential })),
  consent,
  pending: login.pending,
});

const ending = async (person: OverlayCaller, model: string) => {
  const options = { lane: "chat", model_hint: model };
  const { end } = await person.ended(await person.ask("A secret", options));
  return `${end?.status}/${String(end?.detail["code"])}`;
};

/** Nothing leaves, nothing is changed, and whoever asks is told why. */
async function nothingPasses(desk: RemoteDesk): Promise<void> {
  const before = settled(await desk.person.state());
  const asked = desk.cloud.requests.length + desk.near.requests.filter(isPost).length;
  for (const model of [FAR, NEAR]) {
    expect(await ending(desk.person, model)).toBe("failed/ledger_unavailable");
    for (const refused of [desk.chat(model, "A secret"), desk.embed(model, "A secret")])
      expect(await refused.end).toMatchObject({ status: 503, code: "ledger_unavailable" });
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
    expect([member, await desk.outcome(member, signature, ...args)]).toEqual([
      member,
      LEDGER_UNAVAILABLE,
    ]);
  expect(settled(await desk.person.state())).toEqual(before);
  expect(desk.cloud.requests.length + desk.near.requests.filter(isPost).length).toBe(asked);
}

const isPost = ({ method }: { readonly method: string }) => method === "POST";

/** What is under way ends by a word that cannot be written down. */
async function takenBack(desk: RemoteDesk, underWay: HttpChat): Promise<void> {
  expect(await desk.outcome("SetConsent", "sb", "prompt", false)).not.toBe("answered");
  expect(await underWay.end).toMatchObject({ code: "consent_required" });
  expect((await desk.person.state()).consent["prompt"]).toBe(false);
  await expect.poll(() => desk.chats().at(-1)?.state).toBe("left");
}

/** With the key that there was, and without anybody's help. */
async function everythingPasses(desk: RemoteDesk, name: string): Promise<void> {
  const again = () => desk.outcome("SetConsent", "sb", "prompt", true);
  await expect.poll(again, { timeout: 30_000, interval: 50 }).toBe("answered");
  expect(await desk.chat(FAR, "Hello").said()).toBe("You said: Hello");
  expect(await ending(desk.person, FAR)).toBe("completed/ok");
  expect((await desk.embed("remote:cloud:test-embedder", "Hello").end).status).toBe(200);
  const { baseUrl } = desk.cloud;
  expect(await desk.outcome("AddProvider", "sss", name, "", baseUrl)).toBe("answered");
  expect(await desk.outcome("SetKey", "ss", name, KEY)).toBe("answered");
  expect(await desk.outcome("ListModels", "s", name)).toBe("answered");
  expect(await desk.queries()).toEqual({ active: 0, pending: 0 });
}

/** Of the ledger, once nobody writes it: `0 whole`. */
async function verdict(desk: RemoteDesk): Promise<string> {
  await desk.companion.stop();
  const { code, stdout } = await desk.companion.berth(["ledger", "verify", "--user"]);
  return `${code} ${stdout.split(":")[0]}`;
}

async function begun(desk: RemoteDesk): Promise<HttpChat> {
  const underWay = desk.chat(FAR, "Tell me #hang");
  await underWay.begun;
  return underWay;
}

async function traced(desk: RemoteDesk, calls: string, code: string): Promise<Tracer> {
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

/** A process that is still there would write on. */
function mount(desk: RemoteDesk, at: string, args: readonly string[]): () => Promise<void> {
  const unmount = mounted(at, args);
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
  it("(system calls that fail) lets nothing leave, and everything once it is over", async () => {
    await using desk = await open();
    for (const [index, [calls, code]] of errors.entries()) {
      const underWay = await begun(desk);
      const tracer = await traced(desk, calls, code);
      await nothingPasses(desk);
      await takenBack(desk, underWay);
      await tracer.detach();
      await everythingPasses(desk, `after-${index}`);
    }
    expect(await verdict(desk)).toBe("0 whole");
  });

  it("(a read-only directory at the start) lets nothing leave, and ends by itself", async () => {
    await using desk = await open();
    await desk.companion.stop("SIGKILL");
    const directory = join(desk.dataDir, "ledger");
    const unmount = mount(desk, directory, ["--bind", "-o", "ro", directory]);
    await desk.companion.start();
    await nothingPasses(desk);
    await unmount();
    await everythingPasses(desk, "after");
    expect(await verdict(desk)).toBe("0 whole");
  });

  it("(a full disk) lets nothing leave, and ends with it", async () => {
    await using desk = await RemoteDesk.open({ script: faultyTurn, isStarted: false });
    mount(desk, desk.dataDir, ["-t", "tmpfs", "-o", "size=40m,mode=0700", "tmpfs"]);
    await desk.companion.start();
    await desk.furnish();
    const underWay = await begun(desk);
    const ballast = join(desk.dataDir, "ballast");
    // What is written already has places in its files, so that it takes some to run out of them.
    for (let round = 0, end = ""; end !== "ledger_unavailable"; round += 1) {
      fillUp(ballast);
      const { code = "ok" } = await desk.chat(NEAR, `Fill ${round}`).end;
      end = code;
      expect(["ok", "ledger_unavailable"]).toContain(end);
    }
    await nothingPasses(desk);
    await takenBack(desk, underWay);
    rmSync(ballast);
    await everythingPasses(desk, "after");
    expect(await verdict(desk)).toBe("0 whole");
  });
});
