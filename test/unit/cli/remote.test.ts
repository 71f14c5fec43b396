import { chmodSync, existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { BuiltInProvider, LoginDetail } from "../../../src/assistant/remote/port.ts";
import { serveRemote } from "../../../src/assistant/remote/remote-bus.ts";
import { parseConsentChanges } from "../../../src/cli/companion/remote/consent-arguments.ts";
import { BusCallError } from "../../../src/dbus/port.ts";
import type { FakeCompanion } from "../../support/fake-companion.ts";
import { RemoteHarness } from "../../support/remote-harness.ts";
import { type CliOptions, runCommandLine } from "../../support/run-cli.ts";
import { serveCompanion } from "../../support/serve-companion.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";
import { key, Terminal } from "../../support/terminal.ts";

const SECRET = "sk-canary-0123456789";
const nowMs = Date.parse("2026-11-20T20:00:00.000Z");

let dir: string;
let remote: RemoteHarness;
let bus: FakeCompanion;
beforeEach(() => {
  dir = temporaryFolder("remote");
  remote = new RemoteHarness();
  bus = serveCompanion((own) =>
    serveRemote({ bus: own, service: remote.remote, daemon: "berth test" }),
  );
});
afterEach(async () => {
  await remote[Symbol.asyncDispose]();
  if (bus.openConnections > 0) throw new Error("a connection was left behind");
});

const environment = () => ({
  DBUS_SESSION_BUS_ADDRESS: "unix:path=/fake",
  NO_COLOR: "1",
  XDG_RUNTIME_DIR: dir,
  PATH: dir,
});
const run = (words: readonly string[], options: CliOptions = {}) =>
  runCommandLine(["remote", ...words], {
    environment: environment(),
    nowMs,
    openSessionBus: bus.open,
    ...options,
  });
const terminal = (words: readonly string[], more: Record<string, string> = {}) =>
  new Terminal(["remote", ...words], {
    environment: { ...environment(), ...more },
    nowMs,
    openSessionBus: bus.open,
  });

const currentKey = () => remote.vault.kept.get("openrouter")?.credential;
const consent = () => remote.remote.state().consent;
const consentChanges = () =>
  bus.calls.filter(({ member }) => member === "SetConsent").map(({ args }) => args);

const completeLogin = (id: BuiltInProvider, detail: LoginDetail) =>
  remote.signIns.sink?.completed(id, detail === "ok", detail);
/** Calls `then` as soon as the command has received the URL of its sign-in. */
const afterUrl = (then: () => void, url = "https://example.test/openrouter") => {
  remote.signIns.begin = async () => {
    setImmediate(then);
    return url;
  };
};

/** Runs `login openrouter`, and makes the sign-in end with `detail`. Resolves to the result of the command. */
const ending = (detail: LoginDetail) => {
  afterUrl(() => {
    completeLogin("huggingface", "ok");
    completeLogin("openrouter", detail);
  });
  return run(["login", "openrouter"]);
};

/** Runs the sign-in command at a terminal. */
const signsIn = async (url: string, more: Record<string, string>, ...words: readonly string[]) => {
  afterUrl(() => completeLogin("openrouter", "ok"), url);
  using person = terminal(["login", "openrouter", ...words], more);
  await person.waitForText(url);
  expect(await person.ended).toBe(0);
};

const complete = async (current: string, ...words: string[]) =>
  (
    await runCommandLine(["__complete", "--current", current, "--", "remote", ...words], {
      environment: environment(),
      openSessionBus: bus.open,
    })
  ).output;

describe("providers in berth remote", () => {
  it("are listed with the consent", async () => {
    await run(["key", "openrouter"], { input: SECRET });
    await run(["consent", "prompt", "on"]);
    const { code, output, errors } = await run([]);
    expect([code, errors]).toEqual([0, ""]);
    expect(output).toBe(
      [
        "PROVIDER      ADDRESS                            CREDENTIAL            STATUS    LAST USED",
        "openrouter    https://openrouter.ai/api/v1       key                   unknown   -",
        "huggingface   https://router.huggingface.co/v1   none; has a sign-in   unknown   -",
        "",
        "May be sent to providers (`berth remote consent`)",
        "  prompt     on    prompts of you and your programs",
        "  files      off   passages of your files that a search has found",
        "  mail       off   passages of your mail",
        "  calendar   off   entries of your calendar",
        "  screen     off   the content of your screen",
        "  memory     off   the memory of apps",
        "",
      ].join("\n"),
    );
    expect(JSON.parse((await run(["ls", "-o", "json"])).output)).toEqual(remote.remote.state());
  });

  it("are listed with the message of a locked keyring, and without the control characters of that message", async () => {
    await run(["key", "openrouter"], { input: SECRET });
    const message = "the keyring is closed\u001b[31m\nPROVIDER";
    remote.vault.protection = () => ({ source: "secret-service", state: "locked", message });
    const { output } = await run(["ls"]);
    expect(output).toContain(
      "The keys of providers cannot be read or written now: the keyring is closed",
    );
    expect(output).toMatch(/^openrouter +\S+ +key; locked by the keyring +unknown/m);
    expect(output).not.toContain("\u001b");
    expect(output.split("\n").filter((line) => line.startsWith("PROVIDER"))).toHaveLength(1);
  });

  it("are added, and removed with their keys", async () => {
    expect(await run(["add", "work", "http://127.0.0.1:9/v1", "--name", "Work"])).toMatchObject({
      code: 0,
      output: "provider work is added\n",
    });
    expect(bus.calls.at(-1)?.args).toEqual(["work", "Work", "http://127.0.0.1:9/v1"]);
    expect((await run([])).output).toMatch(
      /^work +http:\/\/127\.0\.0\.1:9\/v1 \(this machine\) +none; needs none +unknown/m,
    );
    expect((await run(["rm", "work"])).code).toBe(0);
    expect((await run(["rm", "work"])).errors).toContain('there is no provider "work"');
  });

  it("list their models by the names that requests to the assistant use", async () => {
    expect((await run(["models", "openrouter"])).output).toBe(
      "remote:openrouter:openrouter-model\n",
    );
    const hostile = ["openai/gpt-4o", "odd\u001b[2Jname", 7];
    bus.methods = { ListModels: () => [JSON.stringify(hostile)] };
    expect((await run(["models", "openrouter"])).output).toBe(
      "remote:openrouter:openai/gpt-4o\nremote:openrouter:odd?[2Jname\n",
    );
    const json = await run(["models", "openrouter", "--json"]);
    expect(JSON.parse(json.output)).toEqual(hostile);
  });

  it.each([
    ["ConsentRequired", "berth remote consent"],
    ["Unauthorized", "berth remote key ID"],
    ["Unreachable", "check the network and the provider"],
    ["BadResponse", "try again in a moment"],
  ])("whose request fails with %s are reported with a hint", async (name, hint) => {
    bus.methods = {
      ListModels: () => {
        throw new BusCallError(`dev.assistant.Error.${name}`, "the provider's words");
      },
    };
    const { code, errors } = await run(["models", "openrouter"]);
    expect(code).toBe(1);
    expect(errors).toMatch(/^error: the provider's words\ntry: /);
    expect(errors).toContain(hint);
  });

  it("of a companion of another version are reported with a hint", async () => {
    bus.methods = { State: () => ['{"v":1}'] };
    expect((await run([])).errors).toContain("companion may have another version");
  });
});

describe("a provider's key in berth remote", () => {
  it("from standard input is sent through a pipe, and never printed", async () => {
    const { code, output, errors } = await run(["key", "openrouter"], { input: `${SECRET}\n` });
    expect([code, currentKey()]).toEqual([0, { kind: "key", key: SECRET }]);
    expect(output + errors).not.toContain(SECRET);
    expect(JSON.stringify(bus.calls)).not.toContain(SECRET);
    expect(readdirSync(dir)).toEqual([]);
  });

  it("is read at a terminal without echo", async () => {
    using person = terminal(["key", "openrouter"]);
    await person.waitForText("Key for openrouter: ");
    person.type(`${SECRET}${key.enter}`);
    await person.waitForText("no command can read it again");
    expect([await person.ended, currentKey()]).toEqual([0, { kind: "key", key: SECRET }]);
    expect(person.screen).not.toContain(SECRET);
  });

  it("is not read if it cannot be stored", async () => {
    using person = terminal(["key", "opnrouter"]);
    await person.waitForText('there is no provider "opnrouter"; did you mean "openrouter"?');
    expect(await person.ended).toBe(1);
    expect(person.screen).not.toContain("Key for");
  });

  it.each([
    ["nothing", " \n"],
    ["two lines", `${SECRET}\n${SECRET}`],
    ["too much", "k".repeat(16 * 1024 + 1)],
  ])("that is %s is rejected, and not printed", async (_, input) => {
    const { code, errors } = await run(["key", "openrouter"], { input });
    expect([code, currentKey()]).toEqual([2, undefined]);
    expect(errors).not.toContain(SECRET);
    expect(errors.length).toBeLessThan(300);
  });

  it("of the maximum length fits into the pipe", async () => {
    const long = "k".repeat(16 * 1024);
    expect((await run(["key", "openrouter"], { input: long })).code).toBe(0);
    expect(currentKey()).toEqual({ kind: "key", key: long });
  });

  it("is deleted on request", async () => {
    await run(["key", "openrouter"], { input: SECRET });
    expect((await run(["key", "openrouter", "--clear"])).code).toBe(0);
    expect(currentKey()).toBeUndefined();
  });

  it("is rejected with an error on a bus that does not pass file descriptors", async () => {
    let wanted: boolean | undefined;
    const { errors } = await run(["key", "openrouter"], {
      input: SECRET,
      openSessionBus: async (_address, _signal, canPassFds) => {
        wanted = canPassFds;
        throw new BusCallError("org.freedesktop.DBus.Error.NotSupported", "koffi is not installed");
      },
    });
    expect([wanted, errors]).toEqual([true, "error: koffi is not installed\n"]);
  });
});

describe("consent in berth remote", () => {
  it("is changed; revocations are sent before grants", async () => {
    const { code, output } = await run(["consent", "prompt", "files", "on", "mail", "off"]);
    expect(code).toBe(0);
    expect(consentChanges()).toEqual([
      ["mail", false],
      ["prompt", true],
      ["files", true],
    ]);
    expect(output).toMatch(/^prompt +on .*\nfiles +on .*\nmail +off /);
    await run(["consent", "none"]);
    expect(Object.values(consent())).toEqual(Array.from({ length: 6 }, () => false));
    const { output: json } = await run(["consent", "--json"]);
    expect(JSON.parse(json)).toEqual({ v: 1, consent: consent() });
  });

  it.each([
    ["", []],
    ["all on", [true, true, true, true, true, true]],
    ["none", [false, false, false, false, false, false]],
    ["prompt prompt on", [true]],
  ])("is changed by the words %j", (line, answers) => {
    const words = line.split(" ").filter((word) => word !== "");
    expect(parseConsentChanges(words).map(({ isAllowed }) => isAllowed)).toEqual(answers);
  });

  it.each(["prompt", "on", "prompt on files", "prompt on prompt off", "none on", "all"])(
    "%j is refused, and changes nothing",
    async (line) => {
      expect((await run(["consent", ...line.split(" ")])).code).toBe(2);
      expect(consentChanges()).toEqual([]);
    },
  );

  it("with an unknown scope is a usage error", async () => {
    expect((await run(["consent", "photos", "on"])).code).toBe(2);
  });
});

describe("a sign-in with berth remote", () => {
  it("succeeds after the URL was printed", async () => {
    const { code, output, errors } = await ending("ok");
    expect([code, output]).toEqual([0, "signed in at openrouter\n"]);
    expect(errors).toBe("Sign in here, within five minutes:\n  https://example.test/openrouter\n");
  });

  it.each<[LoginDetail, number, string]>([
    ["denied_by_user", 5, "denied in the browser"],
    ["state_mismatch", 1, "does not belong to this sign-in"],
    ["issuer_mismatch", 1, "not from the provider"],
    ["exchange_failed", 1, "returned no credential"],
    ["timeout", 3, "within five minutes"],
    ["superseded", 1, "a newer sign-in"],
    ["cancelled", 5, "cancelled"],
    ["storage_failed", 1, "could not be stored"],
  ])("that fails with %s exits with %i", async (detail, code, words) => {
    const result = await ending(detail);
    expect([result.code, result.output]).toEqual([code, ""]);
    expect(result.errors).toContain("error: not signed in at openrouter: ");
    expect(result.errors).toContain(words);
  });

  it("that fails with an unknown result prints it without control characters", async () => {
    const detail = "something\u001b[2Jnew";
    afterUrl(() => bus.emit("LoginCompleted", "openrouter", false, detail));
    const { code, errors } = await run(["login", "openrouter"]);
    expect([code, errors]).toEqual([1, expect.stringContaining('failed with "something?[2Jnew"')]);
  });

  it("ignores the result of an earlier sign-in", async () => {
    remote.signIns.begin = async () => {
      completeLogin("openrouter", "superseded");
      setImmediate(() => completeLogin("openrouter", "ok"));
      return "https://example.test/openrouter";
    };
    expect((await run(["login", "openrouter"])).code).toBe(0);
  });

  it("opens the browser only on a desktop", async () => {
    const opened = join(dir, "opened");
    const program = join(dir, "xdg-open");
    writeFileSync(program, `#!/bin/sh\nprintf '%s\\n' "$1" >> ${opened}\n`);
    chmodSync(program, 0o700);
    await signsIn("https://a.example/unwanted", { DISPLAY: ":0" }, "--no-browser");
    await signsIn("https://a.example/no-desktop", {});
    await signsIn("file:///etc/passwd", { DISPLAY: ":0" });
    await signsIn("https://a.example/wanted", { WAYLAND_DISPLAY: "wayland-0" });
    // Browsers are started in order, so an unexpected browser would be listed before the expected one.
    await expect
      .poll(() => (existsSync(opened) ? readFileSync(opened, "utf8") : ""))
      .toBe("https://a.example/wanted\n");
  });

  it("ends when the companion exits", async () => {
    afterUrl(() => bus.emit("NameOwnerChanged", "dev.assistant.Remoted", ":1.2", ""));
    const { code, errors } = await run(["login", "openrouter"]);
    expect([code, errors]).toEqual([1, expect.stringContaining("the companion exited")]);
  });

  it("can be completed after Ctrl-C has ended the command", async () => {
    let interrupt: (() => void) | undefined;
    afterUrl(() => interrupt?.());
    const { code, errors } = await run(["login", "openrouter"], {
      onInterruptible: (listener) => {
        interrupt = listener;
      },
    });
    expect([code, errors]).toEqual([130, expect.stringContaining("the address stays valid")]);
  });
});

it("Tab completes the names of providers and scopes", async () => {
  expect(await complete("o", "login")).toBe("openrouter\tOpenRouter\n:none\n");
  expect(await complete("pr", "consent")).toMatch(/^prompt/);
  expect(await complete("con")).toMatch(/^consent\t/);
});
