import { mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { expect, it } from "vitest";
import { findProblems } from "../support/call-audit.ts";
import { assertText, CompanionClient } from "../support/companion-client.ts";
import { EFFECTS, EffectsApp } from "../support/effects-app.ts";
import { OpenRouterSignInServer } from "../support/openrouter-sign-in.ts";
import { field } from "../support/provider/default-response.ts";
import { findFaultyResponse } from "../support/provider/faulty-responses.ts";
import type { ScriptedResponse } from "../support/provider/scripted-response.ts";
import type { ProviderRequest } from "../support/provider/test-provider.ts";
import { Dice } from "../support/random.ts";
import { REMOTE_MODEL, RemoteCompanionHarness } from "../support/remote-companion-harness.ts";
import { SEED } from "../support/sampling.ts";

/** The number of kills, which happen at moments that the seed chooses. */
const KILLS = Number(process.env["BERTH_REMOTE_KILLS"] ?? 4);
/**
 * The latest time of a kill, in milliseconds after the start of the scenario. By then each action has begun several
 * times, and most have ended.
 */
const SCENARIO_MS_MAX = 1_500;
const secretOf = (number: number) => `sk-canary-${SEED}-${number}-a7c1`;

/** The values that a setting may have after the daemon was killed during a write. */
class UncertainValue<T> {
  #kept: T;
  #possible: T[];

  constructor(first: T) {
    this.#kept = first;
    this.#possible = [first];
  }

  get possible(): readonly T[] {
    return this.#possible;
  }

  /** Writes a value. Resolves to true if the daemon has answered the write. */
  async write(value: T, change: Promise<unknown>): Promise<boolean> {
    this.#possible = [this.#kept, value];
    try {
      await change;
    } catch {
      return false;
    }
    this.resolve(value);
    return true;
  }

  resolve(value: T): void {
    this.#kept = value;
    this.#possible = [value];
  }
}

interface Scenario {
  readonly harness: RemoteCompanionHarness;
  readonly router: OpenRouterSignInServer;
  readonly client: CompanionClient;
  readonly key: UncertainValue<string>;
  readonly consent: UncertainValue<boolean>;
  /** The ids of the providers that the scenario has added. */
  readonly added: Set<string>;
  isSignedIn: boolean;
  parked: bigint | undefined;
  count: number;
}

/** Answers as a model that calls the tool `make` once for each question and then answers. */
function answerAsModel(request: ProviderRequest): ScriptedResponse | undefined {
  if (field(request.body, "response_format") === undefined) return findFaultyResponse(request);
  const isDone = request.text.includes("[outcome 1 ");
  const mark = /mark-[\w-]+/.exec(request.text)?.[0] ?? "mark";
  const choice = isDone ? { tool: "none" } : { tool: `${EFFECTS}/make`, args: { mark } };
  return { type: "chat", text: [JSON.stringify(choice)] };
}

/** Repeats all actions of a user until the daemon is killed, and adds the name of each completed action to `done`. */
async function runScenario(
  scenario: Scenario,
  done: string[],
  isOver: () => boolean,
): Promise<void> {
  const { harness, router, key, consent, client } = scenario;
  await using person = await harness.connectFrontend();
  const remote = (member: string, signature: string, ...args: readonly (string | boolean)[]) =>
    person.call("Remote1", member, signature, ...args);
  const again = async (name: string, step: (number: number) => Promise<unknown>) => {
    while (!isOver()) {
      scenario.count += 1;
      await step(scenario.count);
      if (!isOver()) done.push(name);
    }
  };
  await Promise.all([
    again("key", (number) =>
      key.write(secretOf(number), remote("SetKey", "ss", "cloud", secretOf(number))),
    ),
    again("consent", (number) =>
      consent.write(number % 3 !== 0, remote("SetConsent", "sb", "prompt", number % 3 !== 0)),
    ),
    again("provider", async (number) => {
      const id = `added-${number}`;
      await remote("AddProvider", "sss", id, "", harness.cloudProvider.baseUrl)
        .then(() => scenario.added.add(id))
        .catch(() => pause(5));
    }),
    again("login", async () => {
      const told = person.logins.length;
      const [url] = await remote("BeginLogin", "s", "openrouter").catch(() => []);
      if (url === undefined) return;
      await router.signIn(assertText(url)).catch(() => {}); // the companion may have been killed by then
      while (!isOver() && person.logins.length === told) await pause(2);
      if (person.logins.includes("openrouter true ok")) scenario.isSignedIn = true;
    }),
    again("turn", async (number) => {
      const turn = await person.ask(`Make mark-${number}`).catch(() => undefined);
      if (!turn) return;
      while (!isOver() && turn.end === undefined) {
        if (turn.specs.length > 0) await person.respond(turn, true).catch(() => {});
        await pause(5);
      }
    }),
    again("stream", async (number) => {
      const chat = harness.chat(REMOTE_MODEL, `Tell me #${number % 2 === 0 ? "trickle" : "hang"}`);
      await chat.begun;
      if (number % 2 !== 0) chat.disconnect();
      await chat.result;
    }),
    again("parked", async (number) => {
      const parked = await client.request(EFFECTS, "make", { mark: `parked-${number}` });
      if (parked?.status.startsWith("confirm-") === true) scenario.parked = parked.callId;
      await pause(20);
    }),
  ]);
}

/** Asserts that the state after a kill agrees with the answers that callers received before the kill. */
async function assertConsistent(scenario: Scenario): Promise<void> {
  const { harness, router, client, key, consent } = scenario;
  const state = await harness.frontend.getRemoteState();
  const ids = state.providers.map(({ id }) => id);
  for (const id of scenario.added) expect(ids).toContain(id);
  const intended = harness
    .entries("remote.provider.add")
    .map(({ body }) => body.fields["provider"]);
  for (const id of ids) expect(["openrouter", "huggingface", ...intended]).toContain(id);

  expect(consent.possible).toContain(state.consent.prompt);
  consent.resolve(state.consent.prompt);
  const bearerOf = async (id: string) => {
    expect(await harness.getOutcome("ListModels", "s", id)).toBe("answered");
    return (
      harness.cloudProvider.requests.at(-1)?.headers.authorization?.replace("Bearer ", "") ?? ""
    );
  };
  const found = await bearerOf("cloud");
  expect(key.possible).toContain(found);
  key.resolve(found);
  const signedIn = state.providers.find(({ id }) => id === "openrouter");
  if (scenario.isSignedIn) expect(signedIn?.credential.present).toBe(true);
  if (signedIn?.credential.present === true)
    expect(router.keys).toContain(await bearerOf("openrouter"));
  for (const { id, credential } of state.providers)
    if (id.startsWith("added-")) expect(credential.present).toBe(false);
  expect(state.login.pending).toEqual([]);

  expect(await harness.countQueries()).toEqual({ active: 0, pending: 0 });
  if (scenario.parked === undefined) return;
  const denied = await client.confirm(scenario.parked);
  expect(`${denied?.status}/${denied?.detail.code}`).toBe("denied/restarted");
  scenario.parked = undefined;
}

/** Asserts that no file of the user contains the secret, plain or in base64. */
async function assertSecretsAbsent(
  harness: RemoteCompanionHarness,
  secrets: readonly string[],
): Promise<void> {
  const { home } = harness.companion;
  for (const name of await readdir(home, { recursive: true })) {
    const file = join(home, name);
    if ((await stat(file).catch(() => undefined))?.isFile() !== true) continue;
    const bytes = await readFile(file);
    const found = secrets.filter((secret) => {
      const encoded = Buffer.from(secret).toString("base64").slice(0, -4);
      return bytes.includes(secret) || bytes.includes(encoded);
    });
    expect([name, found]).toEqual([name, []]);
  }
}

it("after SIGKILL at any moment the state agrees with all answers, and no action is half done", async () => {
  process.stdout.write(`BERTH_SEED=${SEED}\n`);
  const dice = new Dice(SEED);
  const folder = await mkdtemp(join(tmpdir(), "berth-kills-"));
  await using router = await OpenRouterSignInServer.start();
  const endpoints = join(folder, "oauth.json");
  await using harness = await RemoteCompanionHarness.open({
    script: answerAsModel,
    acceptsAnyKey: true,
    isStarted: false,
    environment: { ASSISTANT_OAUTH_CONFIG: endpoints, NODE_TLS_REJECT_UNAUTHORIZED: "1" },
  });
  harness.defer(() => rm(folder, { recursive: true, force: true }));
  await writeFile(
    endpoints,
    JSON.stringify({ openrouter: router.endpoints(harness.cloudProvider.baseUrl) }),
  );
  await using app = await EffectsApp.start(harness.companion, harness.dataDir);
  await using client = await CompanionClient.connect(harness.bus);
  await harness.companion.start();
  await harness.configureProvider();
  await harness.frontend.call("Remote1", "SetKey", "ss", "cloud", secretOf(0));
  const day: Scenario = {
    harness,
    router,
    client,
    key: new UncertainValue(secretOf(0)),
    consent: new UncertainValue(true),
    added: new Set(),
    isSignedIn: false,
    parked: undefined,
    count: 0,
  };
  const done: string[] = [];
  for (let kill = 0; kill < KILLS; kill += 1) {
    let isDead = false;
    const isEachDone = () => ["key", "consent", "stream"].every((name) => done.includes(name));
    const die = async () => {
      try {
        // The first kill comes after each of these actions was completed once, however busy the machine is.
        await expect.poll(() => kill > 0 || isEachDone()).toBe(true);
        await pause(dice.between(50, SCENARIO_MS_MAX));
      } finally {
        isDead = true;
        await harness.companion.stop("SIGKILL");
      }
    };
    await Promise.all([die(), runScenario(day, done, () => isDead)]);
    await harness.companion.start();
    await assertConsistent(day);
    const problems = () =>
      findProblems({
        entries: harness.entries(),
        effects: app.effects(),
        acknowledged: client.acknowledged,
        isAtRest: true,
      });
    await expect.poll(problems).toEqual([]);
    const verify = await harness.companion.berth(["ledger", "verify", "--user"]);
    expect(verify).toMatchObject({ code: 0, stdout: expect.stringMatching(/^whole: /) });
  }
  await harness.companion.stop();
  const secrets = Array.from({ length: day.count + 1 }, (_, number) => secretOf(number));
  await assertSecretsAbsent(harness, [...secrets, ...router.keys]);
  expect(harness.companion.lines.join("\n")).not.toContain("sk-canary");
  const times = (name: string) => done.filter((other) => other === name).length;
  process.stdout.write(
    `${[...new Set(done)].map((name) => `${times(name)} ${name}`).join(", ")}\n`,
  );
  process.stdout.write(`${app.effects().length} effects\n`);
});
