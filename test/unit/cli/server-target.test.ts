import { mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { ensurePassword } from "../../../src/api/auth/password.ts";
import { findServerTarget, type ServerTargetOptions } from "../../../src/cli/server-target.ts";
import { openTestApi } from "../../support/api-harness.ts";
import { runCommandLine } from "../../support/run-cli.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";

let folder: string;
beforeEach(() => {
  folder = temporaryFolder("connect");
});

const target = (
  environment: Record<string, string> = {},
  rest: Partial<ServerTargetOptions> = {},
) =>
  findServerTarget({
    environment: {
      HOME: folder,
      BERTH_DATA_DIR: join(folder, "data"),
      ...environment,
    },
    workingDirectory: folder,
    ...rest,
  });

/** Writes the files that a server with the given process id leaves in its data directory. */
function localServer(pid: number, api = "http://127.0.0.1:7776"): void {
  mkdirSync(join(folder, "data/run"), { recursive: true });
  writeFileSync(
    join(folder, "data/run/berth.json"),
    JSON.stringify({
      api,
      data_dir: join(folder, "data"),
      specs_dir: "/specs",
      instance: "0a1b2c3d",
      pid,
      version: "1.0.0",
      docker_host: "unix:///x",
    }),
  );
  writeFileSync(join(folder, "data/run/token"), "local-token\n");
}

function savedLogin(): void {
  mkdirSync(join(folder, ".config/berth"), { recursive: true });
  writeFileSync(
    join(folder, ".config/berth/credentials.json"),
    JSON.stringify({
      current: "https://far.example.org",
      servers: { "https://far.example.org": { token: "far-token", kind: "session" } },
    }),
  );
}

/** A number above every process id of Linux. */
const NO_PID = 4_194_305;

describe("the server that a command uses", () => {
  it("is the server that --url or BERTH_URL names", () => {
    localServer(process.pid);
    savedLogin();
    expect(target({ BERTH_URL: "http://b:1" }, { url: "http://a:1" })).toEqual({
      url: "http://a:1",
      token: undefined,
      origin: "--url",
    });
    expect(target({ BERTH_URL: "http://b:1", BERTH_TOKEN: "t" })).toEqual({
      url: "http://b:1",
      token: "t",
      origin: "BERTH_URL",
    });
  });

  it("receives the token that was saved for it, even if a flag or variable names the server", () => {
    localServer(process.pid);
    savedLogin();
    expect(target({}, { url: "https://far.example.org/" }).token).toBe("far-token");
    expect(target({}, { url: "http://localhost:7776" }).token).toBe("local-token");
    expect(target({}, { url: "http://localhost:7777" }).token).toBeUndefined();
  });

  it("is the server of this machine, or, if no server runs there, the server of the last login", () => {
    savedLogin();
    expect(target()).toMatchObject({
      url: "https://far.example.org",
      token: "far-token",
      origin: "login",
    });
    localServer(process.pid);
    expect(target()).toMatchObject({
      url: "http://127.0.0.1:7776",
      token: "local-token",
      origin: "local",
    });
  });

  it("is the server of the last login if the server of this machine has exited", () => {
    localServer(NO_PID);
    expect(target().origin).toBe("local");
    savedLogin();
    expect(target().origin).toBe("login");
    expect(target({}, { dataDir: join(folder, "data") }).origin).toBe("local");
  });

  it("if no server is found, the error suggests commands to try", async () => {
    const result = await runCommandLine(["get", "apps"], {
      environment: { HOME: folder, BERTH_DATA_DIR: join(folder, "data") },
    });
    expect(result.code).toBe(1);
    expect(result.errors).toContain("no Berth server runs on the data directory");
    expect(result.errors).toContain("`berth up`");
    expect(result.errors).toContain("`berth login URL`");
  });

  it("is not read from a damaged file", () => {
    localServer(process.pid);
    writeFileSync(join(folder, "data/run/berth.json"), "{ half");
    expect(() => target()).toThrow("no Berth server runs");
    mkdirSync(join(folder, ".config/berth"), { recursive: true });
    writeFileSync(join(folder, ".config/berth/credentials.json"), '{"servers": 3}');
    expect(() => target()).toThrow("was not written by `berth login`");
  });
});

describe("berth login", () => {
  it("saves a session in a file that only the user can read, uses the session, and ends it", async () => {
    await using api = await openTestApi();
    await ensurePassword(api.store, "open sesame");
    const url = await api.listen();
    const environment = { HOME: folder, BERTH_DATA_DIR: join(folder, "data") };
    const file = join(folder, ".config/berth/credentials.json");

    const wrong = await runCommandLine(["login", url, "--password-stdin"], {
      environment,
      input: "guess\n",
    });
    expect(wrong.code).toBe(1);
    expect(wrong.errors).toContain("printed its password at its first start");

    const right = await runCommandLine(["login", url.replace("http://", ""), "--password-stdin"], {
      environment,
      input: "open sesame\n",
    });
    expect(right).toMatchObject({ code: 0 });
    expect(right.output).toContain(`logged in to ${url} until`);
    expect(right.output + right.errors).not.toContain("sesame");
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(readFileSync(file, "utf8")).not.toContain("sesame");

    expect((await runCommandLine(["get", "apps"], { environment })).code).toBe(0);
    expect(api.store.tokens.list().some(({ kind }) => kind === "session")).toBe(true);
    expect((await runCommandLine(["logout"], { environment })).output).toBe(
      `logged out of ${url}\n`,
    );
    expect(api.store.tokens.list().some(({ kind }) => kind === "session")).toBe(false);
    expect((await runCommandLine(["get", "apps"], { environment })).code).toBe(1);
    expect((await runCommandLine(["logout"], { environment })).code).toBe(1);
  });

  it("accepts a named token, and does not revoke it at logout", async () => {
    await using api = await openTestApi();
    const url = await api.listen();
    const environment = { HOME: folder, BERTH_DATA_DIR: join(folder, "data") };
    const bad = await runCommandLine(["login", url, "--token-stdin"], {
      environment,
      input: "nonsense\n",
    });
    expect(bad.code).toBe(1);
    const token = api.token("read");
    expect(
      (await runCommandLine(["login", url, "--token-stdin"], { environment, input: `${token}\n` }))
        .code,
    ).toBe(0);
    expect((await runCommandLine(["get", "apps"], { environment })).code).toBe(0);
    await runCommandLine(["logout"], { environment });
    expect(api.store.tokens.find(token)).toBeDefined();
  });

  it("needs an address, a server that answers, and a terminal or --password-stdin", async () => {
    const environment = { HOME: folder };
    expect((await runCommandLine(["login"], { environment })).code).toBe(2);
    expect((await runCommandLine(["login", "ftp://x"], { environment })).code).toBe(2);
    expect(
      (await runCommandLine(["login", "http://127.0.0.1:9"], { environment })).errors,
    ).toContain("--password-stdin");
    const closed = await runCommandLine(["login", "http://127.0.0.1:9", "--password-stdin"], {
      environment,
    });
    expect(closed.code).toBe(1);
    expect(closed.errors).toContain("no Berth server answers");
  });
});
