import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { type CompanionFlags, loadCompanionConfig } from "../../../src/config/companion-config.ts";
import { readCompanionFile } from "../../../src/config/companion-settings-file.ts";
import { ConfigError } from "../../../src/config/config-error.ts";
import { catchBerthError } from "../../support/catch-berth-error.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";

let folder: string;

beforeEach(() => {
  folder = temporaryFolder("companion");
});

function load(flags: CompanionFlags = {}, environment: Record<string, string> = {}) {
  return loadCompanionConfig({
    flags,
    environment: { HOME: folder, XDG_RUNTIME_DIR: "/run/user/7", ...environment },
    workingDirectory: folder,
    isTerminal: false,
  });
}

describe("configuration of a companion", () => {
  it("has its own state directory, port and sockets, and uses the system instance for models", () => {
    const config = load();
    expect(config).toMatchObject({
      instance: "user",
      port: 7778,
      dataDir: join(folder, ".local/share/berth/companion"),
      runtimeDir: "/run/user/7/assistant",
      upstream: "http://127.0.0.1:7777",
      settingsFile: join(folder, ".config/berth/companion.yaml"),
    });
  });

  it("makes the companion run models itself if an engine is given, and then refuses the address of a system instance", () => {
    expect(load({ engine: "stub" }).upstream).toBeUndefined();
    expect(() => load({ engine: "stub", upstream: "http://127.0.0.1:1" })).toThrow(ConfigError);
  });

  it("accepts exact origins as flags and in a variable, and refuses patterns", () => {
    const origins = new Set(["app://notes", "vscode-webview://1x"]);
    expect(load({ allowedOrigin: [...origins] }).allowedOrigins).toEqual(origins);
    const variable = { BERTH_ASSISTANT_ALLOWED_ORIGIN: [...origins].join(",") };
    expect(load({}, variable).allowedOrigins).toEqual(origins);
    for (const origin of ["*", "null", "https://*.example.com", "https://a.example/x", "a.example"])
      expect(() => load({ allowedOrigin: [origin] })).toThrow(`"${origin}" is not an origin`);
  });

  it.each(["https://127.0.0.1:7777", "http://example.org", "nonsense", "http://u@127.0.0.1:1"])(
    "refuses %s as the address of the system instance",
    (upstream) => {
      expect(() => load({ upstream })).toThrow("--upstream must be the address");
    },
  );

  it("accepts addresses of this machine for the system instance", () => {
    expect(load({ upstream: "http://localhost:9000/" }).upstream).toBe("http://localhost:9000");
    expect(load({ upstream: "http://[::1]:9000" }).upstream).toBe("http://[::1]:9000");
  });

  it("reads the user's settings", () => {
    const file = join(folder, "companion.yaml");
    writeFileSync(
      file,
      `paused: true
disabled_apps: [org.example.Old]
disabled_tools: [org.example.Notes/delete_note]
confirm: strict
serve_other_users: true
allowed_origins: [app://obsidian.md, "http://localhost:3000", "app://"]
embedding_model: embed
ledger_retention: 90d
models:
  fast: hub/org/small:q8
  best: [remote:openrouter:meta-llama/llama-3.3-70b:free, tiny]
  __proto__: tiny
index:
  - { name: notes, path: ~/Notes }
  - { name: work, path: ./work, scope: office }
`,
    );
    expect(load({ config: "companion.yaml" }).settings).toEqual({
      isPaused: true,
      disabledApps: new Set(["org.example.Old"]),
      disabledTools: new Set(["org.example.Notes/delete_note"]),
      confirm: "strict",
      servesOtherUsers: true,
      allowedOrigins: new Set(["app://obsidian.md", "http://localhost:3000", "app://"]),
      embeddingModel: "embed",
      ledgerRetentionMs: 90 * 86_400_000,
      models: new Map([
        ["fast", ["hub/org/small:q8"]],
        ["best", ["remote:openrouter:meta-llama/llama-3.3-70b:free", "tiny"]],
        ["__proto__", ["tiny"]],
      ]),
      index: [
        { name: "notes", path: join(folder, "Notes"), scope: "notes" },
        { name: "work", path: join(folder, "work"), scope: "office" },
      ],
    });
  });

  it("has defaults if there is no file", () => {
    expect(readCompanionFile(join(folder, "none.yaml"))).toMatchObject({
      servesOtherUsers: false,
      allowedOrigins: new Set(),
      ledgerRetentionMs: undefined,
      isPaused: false,
      confirm: "any",
      models: new Map(),
      index: [],
    });
  });

  it.each([
    "7",
    "[a]",
    "{ a: 7 }",
    "{ a: [] }",
    "{ a: '' }",
    "{ 'a b': c }",
    "{ '': c }",
    "{ 'remote:x:y': c }",
    "{ a: 'remote:' }",
    "{ a: 'remote:x' }",
    "{ a: 'remote:x:' }",
    "{ a: 'remote:X:y' }",
    "{ a: [b, b] }",
    "{ a: [1, 2] }",
    "{ a: [b, c, d, e, f, g, h, i, j] }",
  ])("refuses %s as a list of model names", (text) => {
    const file = join(folder, "companion.yaml");
    writeFileSync(file, `models: ${text}\n`);
    const error = catchBerthError(() => readCompanionFile(file));
    expect(error).toMatchObject({
      message: expect.stringContaining("companion.yaml:1:1: models must be names without spaces"),
    });
  });

  it.each([
    ["pausd: true\n", 'unknown key "pausd"; did you mean "paused"?'],
    ["confirm: loud\n", 'confirm must be "any" or "strict"'],
    ["ledger_retention: 0d\n", 'ledger_retention must be "keep", or a number of days'],
    ["ledger_retention: 90\n", 'ledger_retention must be "keep", or a number of days'],
    ["disabled_tools: [x]\n", "disabled_tools must be a list of APP_ID/TOOL"],
    ["serve_other_users: maybe\n", "serve_other_users must be true or false"],
    ["allowed_origins: ['*']\n", "allowed_origins must be a list of values of the Origin header"],
    ["allowed_origins: ['null']\n", "allowed_origins must be"],
    ["allowed_origins: ['https://a.example/']\n", "without a path and without wildcards"],
    ["- 1\n", 'it contains "key: value" lines'],
    ["a: [\n", "companion.yaml:2:1"],
    ["index: [{name: a, path: x}, {name: a, path: y}]\n", 'the name "a" is used twice'],
    ["index: [{name: 'A b', path: x}]\n", "index must be a list"],
    [
      "models: { a: x, b: [y, a] }\n",
      'models: "b" stands for "a", which is itself a name under models',
    ],
    ["models: { a: [a] }\n", 'models: "a" stands for "a", which is itself a name under models'],
    ["paused: &x true\nconfirm: *x\n", "anchors and aliases"],
  ])("reports the problem of the settings file %j", (text, message) => {
    const file = join(folder, "companion.yaml");
    writeFileSync(file, text);
    const error = catchBerthError(() => readCompanionFile(file));
    expect(error).toBeInstanceOf(ConfigError);
    expect(error).toMatchObject({ message: expect.stringContaining(message) });
  });

  it.each([
    ["a file that every user can write", "companion.yaml", 0o646],
    ["a file in a folder that every user can write", ".", 0o777],
  ])("refuses %s, and says how to change that", (_, path, mode) => {
    const file = join(folder, "companion.yaml");
    writeFileSync(file, "paused: true\n");
    chmodSync(join(folder, path), mode);
    const error = catchBerthError(() => readCompanionFile(file));
    expect(error).toBeInstanceOf(ConfigError);
    expect(error).toMatchObject({
      message: expect.stringContaining("other users can change"),
      hint: expect.stringContaining(`can write ${join(folder, path)} (chown, chmod go-w)`),
    });
  });

  it("uses no defaults in place of a file that other users could have removed", () => {
    chmodSync(folder, 0o777);
    const expected = expect.stringContaining(`other users can change ${folder}`);
    for (const file of ["companion.yaml", "berth/companion.yaml"])
      expect(catchBerthError(() => readCompanionFile(join(folder, file)))).toMatchObject({
        message: expected,
      });
    chmodSync(folder, 0o1777);
    expect(readCompanionFile(join(folder, "companion.yaml")).isPaused).toBe(false);
  });
});
