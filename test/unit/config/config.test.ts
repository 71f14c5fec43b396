import { mkdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import {
  type ConfigInput,
  createChildEnvironment,
  loadConfig,
  parseListen,
} from "../../../src/config/config.ts";
import { ConfigError } from "../../../src/config/config-error.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";

let root: string;
beforeEach(() => {
  root = temporaryFolder("config");
});

/** Loads the configuration without any influence of the machine that runs the test. */
const load = (input: ConfigInput = {}) =>
  loadConfig({
    environment: {},
    workingDirectory: root,
    homeDirectory: join(root, "home"),
    userId: 1000,
    isTerminal: false,
    systemFile: join(root, "system.yaml"),
    ...input,
  });

const sourceOf = (config: ReturnType<typeof load>, key: string) =>
  config.values.find((value) => value.key === key);

const assistantDirOf = (input: ConfigInput) => load(input).assistant?.dataDir;

function failure(run: () => unknown): ConfigError {
  try {
    run();
  } catch (error) {
    if (error instanceof ConfigError) return error;
    throw error;
  }
  throw new Error("no error was thrown");
}

describe("the defaults of the configuration", () => {
  it("are the documented ones", () => {
    const config = load();
    expect(config.dataDir).toBe(join(root, "home/.local/state/berth"));
    expect(config.specsDir).toBe(join(root, "home/.local/state/berth/specs"));
    expect(config.listen).toEqual({ host: "127.0.0.1", port: 7776 });
    expect(config.ingress).toBe("auto");
    expect([config.httpPort, config.httpsPort]).toEqual([8080, 8443]);
    expect(config.uploadBytesMax).toBe(512 * 1024 * 1024);
    expect(config.build).toEqual({
      concurrency: 1,
      memoryBytes: undefined,
      nanoCpus: undefined,
      timeoutMs: 1_800_000,
      keep: 5,
      diskBytesMax: 20 * 1024 ** 3,
    });
    expect(config.specsGit).toBeUndefined();
    expect(config.assistant).toEqual({
      port: 7777,
      dataDir: join(root, "home/.local/share/berth/assistant"),
      memoryBytesMax: undefined,
    });
    expect(config.models).toEqual({
      diskBytesMax: 50 * 1024 ** 3,
      bandwidthBytesMax: undefined,
      hubUrl: "https://huggingface.co",
      hubToken: undefined,
    });
    expect(config.baseDomain).toBe("localhost");
    expect(config.logFormat).toBe("json");
    expect(config.password).toBeUndefined();
    expect(config.files).toEqual([]);
    expect(config.values.every((value) => value.source === "default")).toBe(true);
  });

  it("put the data of root below /var/lib, and the data of other users below XDG_STATE_HOME", () => {
    expect(load({ userId: 0 }).dataDir).toBe("/var/lib/berth");
    expect(load({ environment: { XDG_STATE_HOME: "/state" } }).dataDir).toBe("/state/berth");
    expect(load({ environment: { XDG_STATE_HOME: "relative" } }).dataDir).toBe(
      join(root, "home/.local/state/berth"),
    );
  });

  it("use ./specs if it exists, and pretty logs on a terminal", () => {
    mkdirSync(join(root, "specs"));
    expect(load().specsDir).toBe(join(root, "specs"));
    expect(load({ isTerminal: true }).logFormat).toBe("pretty");
  });

  it("use the socket of a rootless engine if it exists", async () => {
    const socket = join(root, "docker.sock");
    const server = createServer().listen(socket);
    await new Promise((resolve) => server.once("listening", resolve));
    const found = load({ environment: { XDG_RUNTIME_DIR: root } }).dockerHost;
    server.close();
    expect([`unix://${socket}`, "unix:///var/run/docker.sock"]).toContain(found);
  });
});

describe("the precedence of settings", () => {
  it("is, highest first: flags, environment, file of the data directory, file of the machine, default", () => {
    const data = join(root, "data");
    mkdirSync(data);
    writeFileSync(
      join(root, "system.yaml"),
      `data_dir: ${data}\nbase_domain: system.test\nlog_level: warn\ningress: off\nlisten: 127.0.0.1:1\n`,
    );
    writeFileSync(
      join(data, "config.yaml"),
      "base_domain: data.test\nlog_level: error\nlisten: 127.0.0.1:2\n",
    );
    const config = load({
      environment: { BERTH_LOG_LEVEL: "debug", BERTH_LISTEN: "127.0.0.1:3" },
      flags: { listen: "[::1]:4" },
    });
    expect(config.dataDir).toBe(data);
    expect(config.baseDomain).toBe("data.test");
    expect(config.logLevel).toBe("debug");
    expect(config.listen).toEqual({ host: "::1", port: 4 });
    expect(config.files).toEqual([join(root, "system.yaml"), join(data, "config.yaml")]);
    expect(sourceOf(config, "listen")).toEqual({
      key: "listen",
      value: "[::1]:4",
      source: "flag",
      origin: "--listen",
    });
    expect(sourceOf(config, "log_level")).toMatchObject({
      source: "environment",
      origin: "BERTH_LOG_LEVEL",
    });
    expect(sourceOf(config, "base_domain")).toMatchObject({
      source: "file",
      origin: join(data, "config.yaml"),
    });
    expect(sourceOf(config, "ingress")).toMatchObject({
      source: "file",
      origin: join(root, "system.yaml"),
    });
    expect(sourceOf(config, "assistant")).toMatchObject({ source: "default", origin: null });
  });

  it("makes --config replace the usual files, and resolves the paths in a file against the folder of that file", () => {
    mkdirSync(join(root, "etc"));
    writeFileSync(join(root, "system.yaml"), "log_level: error\n");
    writeFileSync(join(root, "etc/my.yaml"), "data_dir: ../data\nspecs_dir: ~/specs\n");
    const config = load({ flags: { config: "etc/my.yaml" } });
    expect(config.dataDir).toBe(join(root, "data"));
    expect(config.specsDir).toBe(join(root, "home/specs"));
    expect(config.logLevel).toBe("info");
    expect(config.files).toEqual([join(root, "etc/my.yaml")]);
  });

  it("treats an empty variable as unset", () => {
    expect(load({ environment: { BERTH_LISTEN: "", DOCKER_HOST: "" } }).listen.port).toBe(7776);
  });
});

describe("the password", () => {
  it("comes from the environment and is never printed", () => {
    const config = load({ environment: { BERTH_PASSWORD: "s3cret-value" } });
    expect(config.password).toBe("s3cret-value");
    expect(JSON.stringify(config.values)).not.toContain("s3cret-value");
    expect(sourceOf(config, "password")).toMatchObject({
      value: "(secret)",
      origin: "BERTH_PASSWORD",
    });
  });

  it("is refused in a configuration file, and the error does not quote it", () => {
    writeFileSync(join(root, "c.yaml"), "log_level: info\npassword: hunter2\n");
    const error = failure(() => load({ flags: { config: "c.yaml" } }));
    expect(error.message).toContain("c.yaml:2:1: a password is not allowed in a config file");
    expect(error.message).not.toContain("hunter2");
  });
});

describe("invalid settings", () => {
  it.each([
    ["listen", "7776", "--listen must be HOST:PORT"],
    ["listen", "::1:80", "--listen must be"],
    ["listen", "127.0.0.1:70000", "--listen must be HOST:PORT or [IPV6]:PORT with a port of 0 to"],
    ["docker_host", "ssh://me@host", "--docker-host must be unix:///PATH or tcp://HOST:PORT"],
    ["ingress", "caddy", '--ingress must be auto, process, container or off, not "caddy"'],
    ["http_port", "65536", "--http-port must be a port of 0 to 65535"],
    ["build_concurrency", "0", "--build-concurrency must be a number of 1 to 16"],
    ["build_memory", "much", "--build-memory must be an amount of memory"],
    ["build_timeout", "30", "--build-timeout must be a duration"],
    ["upload_limit", "-1", "--upload-limit must be an amount of data"],
    ["specs_git_url", "/srv/repository", "--specs-git-url must be https://, ssh:// or user@host"],
    ["specs_git_path", "a/../..", "--specs-git-path must be a folder of the repository"],
    ["assistant", "yes", "--assistant must be on or off"],
    ["companion", "on", "--companion must be auto or off"],
    ["companion_port", "x", "--companion-port must be a port of 0 to 65535"],
    ["base_domain", "Not a host", "--base-domain must be a host name"],
    ["log_format", "xml", "--log-format must be json or pretty"],
    ["log_level", "loud", "--log-level must be debug, info, warn or error"],
    ["data_dir", "", "--data-dir must be a folder"],
    ["api_domain", "https://berth.example.org", "--api-domain must be a host name"],
    ["api_domain", "*.example.org", "--api-domain must be a host name"],
    ["api_domain", "192.168.0.7", "--api-domain must be a host name"],
  ] as const)(
    "--%s %s is refused, and the error names the accepted values",
    (key, value, message) => {
      expect(failure(() => load({ flags: { [key]: value } })).message).toContain(message);
    },
  );

  it("include a domain of the API if the ingress or HTTPS is off", () => {
    const flags = { api_domain: "berth.example.org" };
    expect(load({ flags }).apiDomain).toBe("berth.example.org");
    for (const [key, value] of [
      ["ingress", "off"],
      ["https_port", "0"],
    ] as const)
      expect(failure(() => load({ flags: { ...flags, [key]: value } })).message).toContain(key);
  });

  it("are reported with the name of their variable", () => {
    const error = failure(() => load({ environment: { BERTH_LISTEN: "nowhere" } }));
    expect(error.message).toContain("BERTH_LISTEN must be");
  });

  it("are reported with file, line and column, and with the nearest known key", () => {
    writeFileSync(join(root, "c.yaml"), "# mine\nlog_level: info\ndata-dirr: /x\nlog_format: 3\n");
    const { message } = failure(() => load({ flags: { config: "c.yaml" } }));
    expect(message).toContain('c.yaml:3:1: unknown key "data-dirr"; did you mean "data_dir"?');
    expect(message).toContain("c.yaml:4:1: log_format must be json or pretty, not 3");
  });

  it.each([
    ["a: [", /c\.yaml:\d+:\d+: (?!.*at line)/],
    ["listen: a:1\nlisten: b:2\n", /c\.yaml:2:1: Map keys must be unique/],
    ["- a\n- b\n", /contains "key: value" lines/],
    ["just text", /contains "key: value" lines/],
    ["specs_dir: &a /x\ntemplates_dir: *a\n", /aliases/],
  ])("make a configuration file invalid: %j", (text, pattern) => {
    writeFileSync(join(root, "c.yaml"), text);
    expect(failure(() => load({ flags: { config: "c.yaml" } })).message).toMatch(pattern);
  });

  it("include a missing --config file, and a data directory whose file sets another data directory", () => {
    expect(failure(() => load({ flags: { config: "no.yaml" } })).message).toContain("no.yaml");
    mkdirSync(join(root, "d"));
    writeFileSync(join(root, "d/config.yaml"), "data_dir: /elsewhere\n");
    expect(failure(() => load({ flags: { data_dir: "d" } })).message).toContain(
      "sets data_dir to a folder other than",
    );
  });

  it("do not include a configuration file that contains only comments", () => {
    writeFileSync(join(root, "c.yaml"), "# nothing yet\n");
    expect(load({ flags: { config: "c.yaml" } }).logLevel).toBe("info");
  });

  it("cause a warning if the name of a variable is probably misspelt", () => {
    expect(load({ environment: { BERTH_DATADIR: "/x", BERTH_ZZTOP: "1" } }).warnings).toEqual([
      "BERTH_DATADIR is not a variable of Berth; did you mean BERTH_DATA_DIR?",
    ]);
  });
});

it("the companion is on whenever the assistant is on, unless a setting turns the companion off", () => {
  expect(load({}).companion).toEqual({ port: 7778 });
  const environment = { BERTH_COMPANION_PORT: "0" };
  expect(load({ environment }).companion).toEqual({ port: 0 });
  expect(load({ environment: { BERTH_COMPANION: "off" } }).companion).toBeUndefined();
  expect(load({ flags: { assistant: "off" } }).companion).toBeUndefined();
});

describe("the assistant", () => {
  it("can be turned off", () => {
    expect(load({ flags: { assistant: "off" } }).assistant).toBeUndefined();
    expect(load({ environment: { BERTH_ASSISTANT: "off" } }).assistant).toBeUndefined();
  });

  it("has its own data directory, which is inside Berth's data directory if that is not the default one", () => {
    expect(assistantDirOf({ userId: 0 })).toBe("/var/lib/berth/assistant");
    expect(assistantDirOf({ environment: { XDG_DATA_HOME: "/share" } })).toBe(
      "/share/berth/assistant",
    );
    expect(assistantDirOf({ flags: { data_dir: "d" } })).toBe(join(root, "d/assistant"));
    // A data directory that equals the default counts as the default, even if it is given explicitly.
    expect(assistantDirOf({ flags: { data_dir: "~/.local/state/berth" } })).toBe(
      join(root, "home/.local/share/berth/assistant"),
    );
    const environment = { BERTH_ASSISTANT_DATA_DIR: "a" };
    expect(assistantDirOf({ environment, flags: { data_dir: "d" } })).toBe(join(root, "a"));
    expect(assistantDirOf({ environment, flags: { assistant_data_dir: "b" } })).toBe(
      join(root, "b"),
    );
  });

  it("gets its port and its memory from flags, variables and files", () => {
    writeFileSync(join(root, "c.yaml"), 'assistant_memory: 8Gi\nassistant_port: "1"\n');
    const config = load({
      flags: { config: "c.yaml" },
      environment: { BERTH_ASSISTANT_PORT: "0" },
    });
    expect(config.assistant).toMatchObject({ port: 0, memoryBytesMax: 8 * 1024 ** 3 });
    expect(sourceOf(config, "assistant_port")).toMatchObject({ origin: "BERTH_ASSISTANT_PORT" });
  });

  it.each([
    [{ assistant: "maybe" }, "--assistant must be on or off"],
    [{ assistant_port: "65536" }, "--assistant-port must be a port of 0 to 65535"],
    [{ assistant_memory: "0Gi" }, "--assistant-memory must be an amount of memory"],
  ])("refuses the setting %j", (flags, message) => {
    expect(failure(() => load({ flags })).message).toContain(message);
  });

  it("has variables of its own, which are not reported as misspelt", () => {
    expect(
      load({ environment: { BERTH_ASSISTANT_ENGINE: "stub", BERTH_ASSISTANT_MODEL: "a.gguf" } })
        .warnings,
    ).toEqual([]);
    expect(load({ environment: { BERTH_ASSISTANT_POTR: "1" } }).warnings).toEqual([
      "BERTH_ASSISTANT_POTR is not a variable of Berth; did you mean BERTH_ASSISTANT_PORT?",
    ]);
  });
});

describe("the settings of models", () => {
  it("have a disk limit, a bandwidth limit, and the URL of a hub", () => {
    const { models } = load({
      environment: { HF_ENDPOINT: "https://hub.test/mirror/", BERTH_MODELS_DISK: "0" },
      flags: { models_bandwidth: "20Mi" },
    });
    expect(models).toMatchObject({
      diskBytesMax: 0,
      bandwidthBytesMax: 20 * 1024 ** 2,
      hubUrl: "https://hub.test/mirror",
    });
    expect(load({ flags: { models_bandwidth: "0.1" } }).models.bandwidthBytesMax).toBe(1);
  });

  it.each(["https://hub.test", "http://127.0.0.1:8080", "http://localhost", "http://[::1]:1/a"])(
    "accept %s as the URL of the hub",
    (hub) => {
      expect(load({ environment: { HF_ENDPOINT: hub } }).models.hubUrl).toBe(hub);
    },
  );

  it.each([
    "http://hub.test",
    "http://127.0.0.1.hub.test",
    "http://localhost.hub.test",
    "http://localhost@hub.test",
    "https://user:word@hub.test",
    "https://hub.test?x=1",
    "ftp://hub.test",
    "hub.test",
  ])("refuse %s as the URL of the hub", (hub) => {
    expect(failure(() => load({ flags: { hf_endpoint: hub } })).message).toContain(
      "--hf-endpoint must be an https:// URL",
    );
  });

  it.each(["0", "0Mi", "0.0k", "fast"])("refuse a bandwidth of %s", (bandwidth) => {
    expect(failure(() => load({ flags: { models_bandwidth: bandwidth } })).message).toContain(
      "--models-bandwidth must be an amount of data per second",
    );
  });
});

it("the configuration masks secrets in its printed values, passes none to child processes, and refuses them in files", () => {
  const environment = {
    HF_TOKEN: "hf_abc",
    BERTH_PASSWORD: "open sesame",
    BERTH_TOKEN: "t",
    LANG: "C",
  };
  const config = load({ environment });
  expect(config.models.hubToken).toBe("hf_abc");
  expect(sourceOf(config, "hf_token")).toEqual({
    key: "hf_token",
    value: "(secret)",
    source: "environment",
    origin: "HF_TOKEN",
  });
  expect(JSON.stringify(config.values)).not.toMatch(/hf_abc|open sesame/);
  expect(createChildEnvironment(environment)).toEqual({ LANG: "C" });
  writeFileSync(join(root, "c.yaml"), "hf_token: hf_abc\n");
  expect(failure(() => load({ flags: { config: "c.yaml" } })).message).toContain(
    "a token is not allowed in a config file; set HF_TOKEN instead",
  );
});

it("the configuration is deeply frozen", () => {
  const config = load();
  for (const part of [
    config,
    config.listen,
    config.assistant,
    config.models,
    config.values,
    config.values[0],
    config.files,
  ])
    expect(Object.isFrozen(part)).toBe(true);
});

it("parseListen reads names, IPv4 and IPv6 addresses with a port", () => {
  expect(parseListen("localhost:0")).toEqual({ host: "localhost", port: 0 });
  expect(parseListen("[fe80::1]:65535")).toEqual({ host: "fe80::1", port: 65_535 });
  expect(parseListen("0.0.0.0:80")).toEqual({ host: "0.0.0.0", port: 80 });
});
