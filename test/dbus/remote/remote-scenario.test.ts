import { execFileSync } from "node:child_process";
import { closeSync, mkdtempSync, openSync, rmSync, writeFileSync } from "node:fs";
import { readdir, readFile, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { BusValue } from "../../../src/dbus/port.ts";
import { AuthorizationServer } from "../../support/authorization-server.ts";
import { BusTap } from "../../support/bus-tap.ts";
import { DesktopHarness, NOTES } from "../../support/desktop-harness.ts";
import { FrontendClient } from "../../support/frontend-client.ts";
import {
  type InferenceHttpHarness,
  startInferenceHttp,
} from "../../support/inference-http-harness.ts";
import { openedBy } from "../../support/open-descriptors.ts";
import { OpenRouterSignInServer } from "../../support/openrouter-sign-in.ts";
import { otherUid, requestAsOtherUser } from "../../support/other-user-requests.ts";
import { TestProvider } from "../../support/provider/test-provider.ts";
import { accepted, says, started, textOfPrompt } from "../../support/scripted-service.ts";

/**
 * A scenario with local and remote models: the real companion on a private bus, a system instance with a scripted
 * model, providers over TLS, real authorization servers, the notes app, and the `openai` client. The tests run in
 * order, and each builds on those before it.
 */

const KEY = "sk-canary-9f3c71d2e8";
const REMOTE = "remote:cloud:test-model";

let folder: string;
let system: InferenceHttpHarness;
let cloud: TestProvider;
let hub: TestProvider;
let openid: AuthorizationServer;
let openrouter: OpenRouterSignInServer;
let desktop: DesktopHarness;
let tap: BusTap;
let person: FrontendClient;
let openai: OpenAI;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "berth-remote-day-"));
  system = await startInferenceHttp();
  scriptLocalModel(system);
  cloud = await TestProvider.start({ tls: true, key: KEY });
  hub = await TestProvider.start({ models: ["hub-model"] });
  openid = await AuthorizationServer.start();
  openrouter = await OpenRouterSignInServer.start();
  const endpoints = join(folder, "oauth.json");
  await writeFile(
    endpoints,
    JSON.stringify({
      openrouter: openrouter.endpoints(`${hub.origin}/v1`),
      huggingface: openid.endpoints(`${hub.origin}/v1`),
    }),
  );
  const authority = join(folder, "ca.pem");
  await writeFile(authority, cloud.ca);
  desktop = await DesktopHarness.start(
    { NODE_EXTRA_CA_CERTS: authority, ASSISTANT_OAUTH_CONFIG: endpoints },
    ["--upstream", system.url],
  );
  tap = await BusTap.open(desktop.bus);
  person = await FrontendClient.connect(desktop.bus.address);
  const baseURL = `${desktop.companion.ready.url}/v1`;
  openai = new OpenAI({ baseURL, apiKey: "any", maxRetries: 0 });
});

afterAll(async () => {
  for (const part of [person, tap, desktop, openrouter, openid, hub, cloud, system])
    await part?.[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

/**
 * Scripts the local model: it chooses the notes tool if the prompt asks for a note and none was created, and
 * otherwise repeats the question.
 */
function scriptLocalModel({ service }: InferenceHttpHarness): void {
  service.script = (request) => {
    const text = textOfPrompt(request.prompts[0]);
    if (request.guide.kind !== "json_schema") return says(request, ["Local", " ", "answer"]);
    const wants = /write a note/.test(text) && !/\[outcome 1 /.test(text);
    const choice = wants
      ? { tool: `${NOTES}/create_note`, args: { title: "Milk", body: "two litres" } }
      : { tool: "none" };
    return [
      accepted,
      started(),
      { type: "text", choice: 0, text: JSON.stringify(choice) },
      { type: "end", choice: 0, reason: "stop", completionTokens: 9 },
    ];
  };
}

const listChatRequests = () =>
  cloud.requests.filter(({ path }) => path.endsWith("/chat/completions"));
/** Returns the value of an out argument if it is a string, and otherwise an empty string. */
const textOf = (value: BusValue | undefined) => (typeof value === "string" ? value : "");
const withoutRepeats = (names: readonly string[]) =>
  names.filter((name, at) => names[at - 1] !== name);

const modelsUrl = () => `${desktop.companion.ready.url}/v1/models`;
const statusFor = async (origin: string) =>
  (await fetch(modelsUrl(), { headers: { origin, "sec-fetch-site": "cross-site" } })).status;

describe("port 7778", () => {
  it("reports the state of the system instance from the first request on", async () => {
    const health = await fetch(`${desktop.companion.ready.url}/health`);
    expect(await health.json()).toMatchObject({ status: "ok", engine: "scripted", upstream: "ok" });
  });

  it("serves listed web pages only, and programs of other users only if the settings say so", async () => {
    const { settingsFile } = desktop.companion;
    expect(await statusFor("http://localhost:3000")).toBe(403);
    const isOther = otherUid !== process.getuid?.();
    const [refused] = await requestAsOtherUser([{ url: modelsUrl() }]);
    expect(refused?.status).toBe(isOther ? 403 : 200);
    await writeFile(settingsFile, "allowed_origins: [app://notes]\nserve_other_users: true\n");
    expect([await statusFor("app://notes"), await statusFor("app://note")]).toEqual([200, 403]);
    const [served] = await requestAsOtherUser([{ url: modelsUrl() }]);
    expect(served?.status).toBe(200);
    rmSync(settingsFile);
    expect(await statusFor("app://notes")).toBe(403);
  });
});

describe("a question", () => {
  it("that names no model is answered by the local model", async () => {
    const turn = await person.waitForEnd(await person.ask("How are you?"));
    expect(turn.text).toBe("Local answer");
    expect(withoutRepeats(turn.names)).toEqual(["Started", "Token", "Finished"]);
    expect(turn.meta).toMatchObject({ v: 1, lane: "agent", route: "local", sources: [] });
    expect(turn.end).toMatchObject({
      status: "completed",
      detail: { v: 1, code: "ok", finish_reason: "stop", calls: [] },
    });
  });

  it("is answered without requested options that are unavailable, which the signal Started lists", async () => {
    const turn = await person.waitForEnd(
      await person.ask("Look!", { window: true, selection: true }),
    );
    expect(turn.meta).toMatchObject({ unavailable: ["window", "selection"], options: [] });
    expect(turn.end?.status).toBe("completed");
  });

  it("with the lane `chat` sends its history to the model", async () => {
    const history = [
      { role: "user", content: "My name is Ada." },
      { role: "assistant", content: "Hello Ada." },
    ];
    const turn = await person.ask("And now?", {
      lane: "chat",
      history_json: JSON.stringify(history),
    });
    expect((await person.waitForEnd(turn)).end?.status).toBe("completed");
    const prompt = system.service.requests.at(-1)?.prompts[0];
    expect(prompt?.kind === "chat" ? prompt.messages.map(({ content }) => content) : []).toEqual([
      "My name is Ada.",
      "Hello Ada.",
      "And now?",
    ]);
  });
});

describe("a provider", () => {
  it("is added with a key that is never on the bus", async () => {
    await person.call("Remote1", "AddProvider", "sss", "cloud", "A cloud", cloud.baseUrl);
    const file = join(folder, "key");
    writeFileSync(file, `${KEY}\n`, { mode: 0o600 });
    await person.call("Remote1", "SetKeyFd", "sh", "cloud", openSync(file, "r"));
    rmSync(file);
    const state = await person.getRemoteState();
    expect(state.providers.find(({ id }) => id === "cloud")).toMatchObject({
      base_url: cloud.baseUrl,
      address_class: "loopback",
      credential: { present: true, kind: "key" },
    });
    expect(Object.values(state.consent)).not.toContain(true);
    const [models] = await person.call("Remote1", "ListModels", "s", "cloud");
    expect(JSON.parse(textOf(models))).toEqual(["test-model", "test-embedder"]);
  });

  it("that does not exist gets no key: the descriptor of the key is closed, but not read", async () => {
    // The test keeps the other end of the pipe open, so a read until the end would never return.
    const pipe = join(folder, "endless");
    execFileSync("mkfifo", [pipe]);
    const fd = openSync(pipe, "r+");
    await expect(person.call("Remote1", "SetKeyFd", "sh", "nobody", fd)).rejects.toThrow(
      'there is no provider "nobody"',
    );
    await expect.poll(() => openedBy(desktop.companion.ready.pid)).not.toContain(pipe);
  });

  it("that is removed while its key is read gets no key, even if it is added again elsewhere", async () => {
    const pipe = join(folder, "slow-key");
    execFileSync("mkfifo", [pipe]);
    // The test keeps a writing end open, so the end of the key does not arrive.
    const writer = openSync(pipe, "r+");
    await person.call("Remote1", "AddProvider", "sss", "slow", "", cloud.baseUrl);
    const set = person.call("Remote1", "SetKeyFd", "sh", "slow", openSync(pipe, "r"));
    set.catch(() => {});
    await person.call("Remote1", "RemoveProvider", "s", "slow");
    await person.call("Remote1", "AddProvider", "sss", "slow", "", "http://127.0.0.1:9/v1");
    await expect(set).rejects.toThrow("the key for slow was not stored");
    await expect.poll(() => openedBy(desktop.companion.ready.pid)).not.toContain(pipe);
    const { providers } = await person.getRemoteState();
    expect(providers.find(({ id }) => id === "slow")?.credential.present).toBe(false);
    await person.call("Remote1", "RemoveProvider", "s", "slow");
    closeSync(writer);
  });

  it.each([
    ["AddProvider", ["cloud", "again", "https://example.org/v1"], "Error.Exists"],
    ["AddProvider", ["Bad Id", "", "https://example.org/v1"], "Error.InvalidArgs"],
    ["AddProvider", ["meta", "", "http://169.254.169.254/v1"], "Error.AccessDenied"],
    ["AddProvider", ["meta", "", "http://[::ffff:169.254.169.254]/v1"], "Error.AccessDenied"],
    ["AddProvider", ["own", "", "http://127.0.0.1:7777/v1"], "Error.AccessDenied"],
    ["AddProvider", ["file", "", "file:///etc/passwd"], "Error.InvalidArgs"],
    ["AddProvider", ["user", "", "https://a:b@example.org/v1"], "Error.InvalidArgs"],
    ["RemoveProvider", ["nobody"], "Error.NotFound"],
    ["RemoveProvider", ["openrouter"], "Error.InvalidArgs"],
    ["SetKey", ["nobody", "k"], "Error.NotFound"],
    ["BeginLogin", ["cloud"], "Error.InvalidArgs"],
    ["ListModels", ["nobody"], "Error.NotFound"],
  ] as const)(
    "receives nothing from an invalid call: the method %s with the arguments %j is refused with %s",
    async (member, args, name) => {
      const call = person.call("Remote1", member, "s".repeat(args.length), ...args);
      await expect(call).rejects.toMatchObject({ busName: expect.stringMatching(`${name}$`) });
    },
  );

  it("receives no data before the user gives consent", async () => {
    const received = cloud.requests.length;
    const turn = await person.ask("A secret", { model_hint: REMOTE });
    expect(await person.waitForQuestion(turn)).toMatchObject({
      v: 1,
      kind: "consent",
      provider: "cloud",
      scopes: ["prompt"],
    });
    await person.respond(turn, false);
    await person.waitForEnd(turn);
    expect(turn.end).toMatchObject({ status: "denied", detail: { code: "declined" } });
    expect(turn.names).not.toContain("Token");
    const cancelled = await person.ask("A secret", { model_hint: REMOTE, lane: "chat" });
    await person.waitForQuestion(cancelled);
    await person.call("Overlay1", "Cancel", "t", cancelled.queryId);
    expect((await person.waitForEnd(cancelled)).end?.status).toBe("denied");
    await expect(chat("A secret")).rejects.toMatchObject({ status: 403, code: "consent_required" });
    // Every program of this machine, and a page in a browser, can request the list of models.
    expect((await fetch(`${desktop.companion.ready.url}/v1/models`)).status).toBe(200);
    expect(cloud.requests).toHaveLength(received);
  });

  it("receives one request after one-time consent", async () => {
    const turn = await person.ask("Only this", { model_hint: REMOTE, lane: "chat" });
    await person.waitForQuestion(turn);
    await person.respond(turn, true);
    await person.waitForEnd(turn);
    expect(turn.text).toBe("You said: Only this");
    expect(turn.meta).toMatchObject({ lane: "chat", route: "remote", model: REMOTE });
    expect(turn.end).toMatchObject({ status: "completed", detail: { model: REMOTE } });
    const next = await person.ask("And this", { model_hint: REMOTE, lane: "chat" });
    await person.waitForQuestion(next);
    await person.respond(next, false);
    await person.waitForEnd(next);
    expect(listChatRequests()).toHaveLength(1);
  });
});

async function chat(content: string, model = REMOTE): Promise<string> {
  const stream = await openai.chat.completions.create({
    model,
    stream: true,
    messages: [{ role: "user", content }],
  });
  let text = "";
  for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? "";
  return text;
}

describe("the openai client", () => {
  it("can use the local and the remote model after the user consents to sending prompts", async () => {
    await person.call("Remote1", "SetConsent", "sb", "prompt", true);
    expect(await chat("Hello")).toBe("You said: Hello");
    expect(await chat("Hello", "tiny")).toBe("Local answer");
    const ids: string[] = [];
    for await (const { id } of openai.models.list()) ids.push(id);
    expect(ids).toEqual(expect.arrayContaining(["tiny", REMOTE, "remote:cloud:test-embedder"]));
    const embedded = await openai.embeddings.create({
      model: "remote:cloud:test-embedder",
      input: ["a", "b"],
    });
    expect(embedded.data.map(({ index }) => index)).toEqual([0, 1]);
  });

  it("gets its own error type for a provider's error", async () => {
    cloud.next({ type: "status", status: 401, body: { error: { message: `no ${KEY}` } } });
    const refused = chat("x");
    await expect(refused).rejects.toBeInstanceOf(OpenAI.AuthenticationError);
    await expect(refused).rejects.not.toMatchObject({ message: expect.stringContaining(KEY) });
    cloud.next({ type: "status", status: 429, headers: { "retry-after": "7" }, body: {} });
    await expect(chat("x")).rejects.toBeInstanceOf(OpenAI.RateLimitError);
    await expect(chat("x", "remote:cloud:nobody")).rejects.toBeInstanceOf(OpenAI.NotFoundError);
    await expect(chat("x", "remote:nobody:x")).rejects.toBeInstanceOf(OpenAI.NotFoundError);
  });

  it("uses model names from the user's settings", async () => {
    await writeFile(
      desktop.companion.settingsFile,
      `models: { best: [remote:cloud:gone, tiny], far: ${REMOTE} }\nindex:\n  - { name: papers, path: ~/Papers, scope: home }\n`,
    );
    expect(await chat("Hello", "far")).toBe("You said: Hello");
    expect(await chat("Hello", "best")).toBe("Local answer");
  });

  it("never sends a key to the target of a redirect", async () => {
    const before = hub.requests.length;
    cloud.next({ type: "status", status: 302, headers: { location: `${hub.origin}/v1/x` } });
    await expect(chat("x")).rejects.toMatchObject({ code: "bad_response" });
    expect(hub.requests).toHaveLength(before);
  });
});

describe("tools", () => {
  it("are called during a turn if the user consents", async () => {
    const turn = await person.ask("Please write a note that I need milk");
    expect(await person.waitForQuestion(turn)).toMatchObject({
      kind: "call",
      app_id: NOTES,
      tool: "create_note",
      args: { title: "Milk" },
      chain: ["user"],
    });
    await person.respond(turn, true);
    await person.waitForEnd(turn);
    expect(turn.end).toMatchObject({
      status: "completed",
      detail: { calls: [{ app_id: NOTES, tool: "create_note", status: "executed" }] },
    });
    const { stdout } = await desktop.companion.berth([
      "call",
      NOTES,
      "list_notes",
      "{}",
      "--provenance",
      "user",
    ]);
    expect(stdout).toContain("Milk");
  });

  it("have no effect if the user declines", async () => {
    const turn = await person.ask("Please write a note that I need milk");
    await person.waitForQuestion(turn);
    await person.respond(turn, false);
    expect((await person.waitForEnd(turn)).end).toMatchObject({
      status: "completed",
      detail: { calls: [{ status: "denied" }] },
    });
  });
});

describe("the user's data", () => {
  it("is found, and its sources are listed in the signal Started", async () => {
    const turn = await person.waitForEnd(
      await person.ask("What pressure should the boiler have?", { my_stuff: true }),
    );
    expect(turn.meta).toMatchObject({ options: ["my_stuff"], sources: [{ source: "papers" }] });
    expect(textOfPrompt(system.service.requests.at(-1)?.prompts[0])).toContain("1.5 bar");
  });

  it("is sent only with separate consent", async () => {
    const before = listChatRequests().length;
    const turn = await person.ask("What pressure should the boiler have?", {
      my_stuff: true,
      lane: "chat",
      model_hint: REMOTE,
    });
    expect(await person.waitForQuestion(turn)).toMatchObject({
      scopes: ["files"],
      sources: [{ source: "papers" }],
    });
    expect(listChatRequests()).toHaveLength(before);
    await person.respond(turn, true);
    await person.waitForEnd(turn);
    expect(listChatRequests().at(-1)?.text).toContain("1.5 bar");
  });

  it("adds labels to the provenance of tool calls", async () => {
    const turn = await person.ask("Please write a note about the boiler", { my_stuff: true });
    const spec = await person.waitForQuestion(turn);
    expect(spec).toMatchObject({ chain: ["user", "file:papers"] });
    expect(spec["tiers"]).toEqual({ declared: "write", effective: "destructive" });
    await person.call("Overlay1", "Cancel", "t", turn.queryId);
    expect((await person.waitForEnd(turn)).end?.detail).toMatchObject({
      calls: [{ status: "denied" }],
    });
  });
});

describe("a revocation of consent", () => {
  it("ends the running requests", async () => {
    cloud.next({ type: "chat", text: ["One", " two"], afterwards: { after: 2, do: "hang" } });
    const turn = await person.ask("Tell me", { lane: "chat", model_hint: REMOTE });
    await person.waitUntil("the stream to begin", () => turn.text === "One two");
    await person.call("Remote1", "SetConsent", "sb", "prompt", false);
    await person.waitForEnd(turn);
    expect(turn.end).toMatchObject({ status: "failed", detail: { code: "consent_required" } });
    await expect.poll(() => listChatRequests().at(-1)?.state).toBe("left");
  });
});

describe("signing in to a provider", () => {
  it("completes with a real authorization server, and the session can use models", async () => {
    const [url] = await person.call("Remote1", "BeginLogin", "s", "huggingface");
    const { login } = await person.getRemoteState();
    expect(login.pending).toMatchObject([{ provider_id: "huggingface" }]);
    const page = await openid.signIn(textOf(url));
    expect(page.status).toBe(200);
    await person.waitUntil("the result of the sign-in", () => person.logins.length > 0);
    expect(person.logins.splice(0)).toEqual(["huggingface true ok"]);
    const [models] = await person.call("Remote1", "ListModels", "s", "huggingface");
    expect(JSON.parse(textOf(models))).toEqual(["hub-model"]);
    const bearer = hub.requests.at(-1)?.headers.authorization?.replace("Bearer ", "") ?? "";
    expect(await openid.accountOf(bearer)).toBe("alice");
    await person.call("Remote1", "Logout", "s", "huggingface");
    await expect.poll(() => openid.accountOf(bearer)).toBeUndefined();
  });

  it("exchanges a code for a key, and every failure has its own error code", async () => {
    const [url] = await person.call("Remote1", "BeginLogin", "s", "openrouter");
    await openrouter.signIn(textOf(url));
    await person.waitUntil("the result of the sign-in", () => person.logins.length > 0);
    const [older] = await person.call("Remote1", "BeginLogin", "s", "huggingface");
    const [newer] = await person.call("Remote1", "BeginLogin", "s", "huggingface");
    await openid.signIn(textOf(newer), "abort");
    await person.waitUntil("both results", () => person.logins.length > 2);
    const [forged] = await person.call("Remote1", "BeginLogin", "s", "huggingface");
    const back = await openid.authorize(textOf(forged));
    back.searchParams.set("state", "guessed");
    await fetch(back);
    await person.waitUntil("the fourth result", () => person.logins.length > 3);
    expect(older).not.toBe(newer);
    expect(person.logins).toEqual([
      "openrouter true ok",
      "huggingface false superseded",
      "huggingface false denied_by_user",
      "huggingface false state_mismatch",
    ]);
  });
});

describe("at the end of the scenario", () => {
  it("the ledger has an entry for all data that was sent", async () => {
    const { code, stdout } = await desktop.companion.berth(["ledger", "verify", "--user"]);
    expect(stdout).toContain("whole");
    expect(code).toBe(0);
    const told = await desktop.companion.berth([
      "ledger",
      "tail",
      "--user",
      "-n",
      "1000",
      "--json",
    ]);
    const entries = told.stdout.split("\n").filter((line) => line.includes('"egress.send"'));
    const arrived = [...cloud.requests, ...hub.requests];
    expect(entries.length).toBe(arrived.length);
    const doors = entries.map((line) => /"asker":\{[^}]*"door":"(\w+)"/.exec(line)?.[1]);
    expect(new Set(doors)).toEqual(new Set(["http", "overlay", "settings"]));
    const users = entries.flatMap((line) => /"door":"http","uid":(\w+)/.exec(line)?.[1] ?? []);
    expect(new Set(users)).toEqual(new Set([String(process.getuid?.())]));
  });

  it("no key, token or code is stored outside the vault", async () => {
    const secrets = [KEY, ...openrouter.keys];
    const { home } = desktop.companion;
    const texts = new Map<string, Buffer>([
      ["the bus", tap.bytes],
      ["the log", Buffer.from(desktop.companion.lines.join("\n"))],
      ["the state", Buffer.from(JSON.stringify(await person.getRemoteState()))],
    ]);
    await desktop.companion.stop();
    for (const name of await readdir(home, { recursive: true })) {
      const file = join(home, name);
      if ((await stat(file).catch(() => undefined))?.isFile() === true)
        texts.set(name, await readFile(file));
    }
    expect(tap.bytes.length).toBeGreaterThan(10_000);
    expect(texts.size).toBeGreaterThan(10);
    for (const [where, bytes] of texts)
      for (const secret of secrets) {
        expect(bytes.includes(secret), `${secret} in ${where}`).toBe(false);
        const encoded = Buffer.from(secret).toString("base64").replaceAll("=", "");
        expect(bytes.includes(encoded), `${secret} in base64 in ${where}`).toBe(false);
      }
    expect(secrets).toHaveLength(2);
  });

  it("a companion that ends on SIGTERM does not report that the bus is gone", async () => {
    await desktop.companion.stop();
    const log = desktop.companion.lines.join("\n");
    expect(log).toContain("the companion is ready");
    expect(log).not.toContain("the session bus closed its connection");
  });
});
