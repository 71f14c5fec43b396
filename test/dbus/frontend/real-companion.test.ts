import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { BusTap } from "../../support/bus-tap.ts";
import { CompanionProcess } from "../../support/companion-process.ts";
import { examplePath } from "../../support/example-app.ts";
import { Screen } from "../../support/screen.ts";
import { TestSessionBus } from "../../support/test-session-bus.ts";

/** These tests run the built command line, the example frontend and the real companion with the stub engine. */

/** A provider's key, which must not appear on the bus. */
const SECRET = "sk-canary-frontend-0123456789";
const example = examplePath("terminal-frontend/frontend.mjs");

let bus: TestSessionBus;
let companion: CompanionProcess;
beforeAll(async () => {
  bus = await TestSessionBus.start();
  companion = await CompanionProcess.start({ bus });
});
afterAll(async () => {
  await companion?.[Symbol.asyncDispose]();
  await bus[Symbol.asyncDispose]();
});

const berth = (words: readonly string[], input = "") => companion.berth(words, input);

const openScreen = (...words: string[]) => new Screen(words, companion.environment);

describe("berth remote", () => {
  it("adds a provider, stores its key without showing it, and gives consent", async () => {
    expect(await berth(["remote", "add", "work", "http://127.0.0.1:9/v1"])).toMatchObject({
      code: 0,
      stderr: "",
    });
    const kept = await berth(["remote", "key", "work"], `${SECRET}\n`);
    expect(kept).toMatchObject({ code: 0, stderr: "" });
    const listed = await berth(["remote"]);
    expect(listed.stdout).toMatch(/^openrouter +https:/m);
    expect(listed.stdout).toMatch(
      /^work +http:\/\/127\.0\.0\.1:9\/v1 \(this machine\) +key +unknown/m,
    );
    const consent = await berth(["remote", "consent", "prompt", "on"]);
    expect(consent.stdout).toMatch(/^prompt +on /);
    const models = await berth(["remote", "models", "work"]);
    expect([models.code, models.stderr]).toEqual([1, expect.stringContaining("try:")]);
    const state = await berth(["remote", "-o", "json"]);
    expect(JSON.parse(state.stdout)).toMatchObject({
      v: 1,
      consent: { prompt: true, files: false },
    });
    for (const { stdout, stderr } of [kept, listed, consent, models, state])
      expect(stdout + stderr).not.toContain(SECRET);
    expect(companion.log).not.toContain(SECRET);
    expect((await berth(["remote", "consent", "none"])).code).toBe(0);
    expect((await berth(["remote", "rm", "openrouter"])).code).toBe(1);
  });

  it("reads a key at a terminal without showing it on the screen or the bus", async () => {
    await using tap = await BusTap.open(bus);
    using person = openScreen("remote", "key", "work");
    let screen = await person.until(/Key for work: /);
    person.type(`${SECRET}\r`);
    screen += await person.until(/no command can read it again/);
    expect(await person.ended).toBe(0);
    // The recorded bus traffic contains the names of these calls but not the key, so the recording works and the key
    // was not sent.
    expect((await berth(["remote", "add", "seen", "http://127.0.0.1:9/v1"])).code).toBe(0);
    await expect.poll(() => tap.bytes.includes("AddProvider")).toBe(true);
    expect(tap.bytes.includes("SetKeyFd")).toBe(true);
    expect(tap.bytes.includes(SECRET)).toBe(false);
    expect(screen).not.toContain(SECRET);
  });

  it("refuses addresses that are not allowed for providers", async () => {
    const { code, stderr } = await berth(["remote", "add", "cloud", "http://169.254.169.254/v1"]);
    expect([code, stderr]).toEqual([1, expect.stringMatching(/^error: /)]);
  });
});

describe.each([
  ["berth", openScreen],
  [
    "the example frontend",
    (...words: string[]) => new Screen(words, companion.environment, example),
  ],
])("the program `%s`", (_, screen) => {
  it("shows a question's answer from the local model", async () => {
    using person = screen("ask", "Once upon a time");
    expect(await person.ended).toBe(0);
  });

  it("uses a provider's model only after the user has consented", async () => {
    using no = screen("ask", "--model", "remote:work:tiny", "Well?");
    await no.until(/Send it, this once\? \[y\/N\] /);
    no.type("\r");
    expect(await no.ended).not.toBe(0);
    using yes = screen("ask", "--model", "remote:work:tiny", "Well?");
    await yes.until(/Send it, this once\? \[y\/N\] /);
    yes.type("y\r");
    // No process listens at the provider's address, so this error shows that the companion tried to connect.
    await yes.until(/unreachable|cannot be reached/);
    expect(await yes.ended).not.toBe(0);
  });

  it("continues the chat after the user has declined a request", async () => {
    using person = screen("chat", "--model", "remote:work:tiny");
    await person.until(/> /);
    person.type("Well?\r");
    await person.until(/Send it, this once\? \[y\/N\] /);
    person.type("\r");
    await person.until(/not allow|did not give|denied[^]*> /);
    person.type("\u0004");
    expect(await person.ended).toBe(0);
  });
});
