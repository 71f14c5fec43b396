import { chmodSync, existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { createServer as createNetServer } from "node:net";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import {
  createAssistantFinding,
  createCompanionFindings,
} from "../../../src/cli/doctor/check-assistant.ts";
import { runCommandLine } from "../../support/run-cli.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";

let folder: string;
const servers: { close(): unknown }[] = [];
beforeEach(() => {
  folder = temporaryFolder("doctor");
  mkdirSync(join(folder, "data"), { mode: 0o700 });
  mkdirSync(join(folder, "specs"));
});
afterEach(() => {
  for (const server of servers.splice(0)) server.close();
});

interface Finding {
  readonly check: string;
  readonly state: string;
  readonly message: string;
  readonly fix?: string;
}

async function doctor(
  ...flags: string[]
): Promise<{ code: number; of: (check: string) => Finding }> {
  const { code, output } = await runCommandLine(
    // The default ports may be taken on the machine that runs the test.
    ["doctor", "-o", "json", "--listen", "127.0.0.1:0", "--ingress", "off"].concat(
      ["--assistant-port", "0"],
      flags,
    ),
    {
      workingDirectory: folder,
      environment: {
        HOME: folder,
        BERTH_DATA_DIR: join(folder, "data"),
        DOCKER_HOST: `unix://${join(folder, "docker.sock")}`,
      },
    },
  );
  const { checks }: { checks: Finding[] } = JSON.parse(output);
  return {
    code,
    of(check) {
      const found = checks.find((finding) => finding.check === check);
      if (!found) throw new Error(`no finding of ${check}: ${output}`);
      return found;
    },
  };
}

/** Starts a server on the socket that answers like a container engine with the given API version. */
async function engine(apiVersion: string, systemTime = new Date().toISOString()): Promise<void> {
  const server = createServer((request, response) => {
    response.end(
      JSON.stringify(
        request.url === "/version"
          ? { Version: "99.1", ApiVersion: apiVersion }
          : { SystemTime: systemTime },
      ),
    );
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(join(folder, "docker.sock"), resolve));
}

it("berth doctor reports no problem if all checks pass", async () => {
  await engine("1.41");
  const { code, of } = await doctor();
  expect(of("engine")).toMatchObject({ state: "ok" });
  expect(of("engine").message).toContain("99.1");
  for (const check of [
    "node",
    "configuration",
    "clock",
    "data directory",
    "disk",
    "specs folder",
    "port",
    "server",
    "ingress",
    "assistant",
  ])
    expect(of(check)).toMatchObject({ state: "ok" });
  expect(code).toBe(0);
});

it("berth doctor prints the findings with suggestions", async () => {
  const words = ["doctor", "--listen", "127.0.0.1:0", "--ingress", "off", "--assistant", "off"];
  const { code, output } = await runCommandLine(words, {
    workingDirectory: folder,
    environment: {
      HOME: folder,
      BERTH_DATA_DIR: join(folder, "data"),
      DOCKER_HOST: "unix:///nowhere/d.sock",
    },
  });
  expect(code).toBe(1);
  expect(output).toMatch(
    /FAIL {2}engine +there is no engine socket \/nowhere\/d\.sock\n +try: install an engine/,
  );
  expect(output).toContain("1 failed");
});

it("berth doctor reports an engine that is too old, and an engine whose clock differs", async () => {
  await engine("1.39", new Date(Date.now() - 60_000).toISOString());
  const { code, of } = await doctor();
  expect(code).toBe(1);
  expect(of("engine")).toMatchObject({ state: "fail" });
  expect(of("engine").message).toContain("1.41 or newer");
  expect(of("clock")).toMatchObject({ state: "warn" });
  expect(of("clock").message).toContain("by 60 s");
});

it("berth doctor reports a socket on which no process listens, and a file that is not a socket", async () => {
  writeFileSync(join(folder, "docker.sock"), "");
  const { of } = await doctor();
  expect(of("engine").state).toBe("fail");
  expect(of("engine").message).toMatch(/no engine listens|is not a socket/);
});

it("berth doctor reports problems in spec files with their lines", async () => {
  await engine("1.44");
  writeFileSync(
    join(folder, "specs/a.yaml"),
    "apiVersion: berth.dev/v1\nkind: Ap\nmetadata: { name: a }\nspec: {}\n",
  );
  const { code, of } = await doctor();
  expect(code).toBe(1);
  expect(of("specs folder")).toMatchObject({ state: "fail" });
  expect(of("specs folder").message).toMatch(/a\.yaml:2:\d+: /);
  rmSync(join(folder, "specs"), { recursive: true });
  const missing = await doctor("--specs-dir", "specs");
  expect(missing.of("specs folder")).toMatchObject({ state: "warn" });
  expect(missing.code).toBe(0);
});

it("berth doctor reports a port that is in use, with the process that uses it", async () => {
  await engine("1.44");
  const holder = createNetServer();
  servers.push(holder);
  await new Promise<void>((resolve) => holder.listen(0, "127.0.0.1", resolve));
  const address = holder.address();
  if (typeof address !== "object" || address === null) throw new Error("it does not listen");
  const { port } = address;
  const { code, of } = await doctor("--listen", `127.0.0.1:${port}`);
  expect(code).toBe(1);
  expect(of("port").message).toContain(`127.0.0.1:${port} is taken by`);
  expect(of("port").message).toContain(`(process ${process.pid})`);
  expect(of("port").fix).toContain("--listen");
});

it("berth doctor reports a port of the ingress that is in use, and a Caddy that an earlier server left running", async () => {
  await engine("1.44");
  const holder = createNetServer();
  servers.push(holder);
  await new Promise<void>((resolve) => holder.listen(0, resolve));
  const address = holder.address();
  if (typeof address !== "object" || address === null) throw new Error("it does not listen");
  const flags = ["--ingress", "container", "--http-port", `${address.port}`, "--https-port", "0"];
  const { code, of } = await doctor(...flags);
  expect(code).toBe(1);
  expect(of("ingress").message).toContain("in a container of caddy:2");
  expect(of("http port")).toMatchObject({ state: "fail" });
  expect(of("http port").message).toContain(`${address.port} is taken by`);
  expect(of("http port").fix).toContain("--http-port 8080");
  expect(() => of("https port")).toThrow("no finding");

  mkdirSync(join(folder, "data/ingress"));
  writeFileSync(join(folder, "data/ingress/caddy.pid"), `${process.pid}\n`);
  const left = await doctor(...flags);
  expect(left.code).toBe(0);
  expect(left.of("ingress").message).toContain(`Caddy (process ${process.pid}) still runs`);
});

it("berth doctor reports whether the assistant could start, already runs, or finds its port in use", async () => {
  await engine("1.44");
  expect((await doctor("--assistant", "off")).of("assistant").message).toBe(
    "off: no model can run",
  );
  const holder = createNetServer();
  servers.push(holder);
  await new Promise<void>((resolve) => holder.listen(0, "127.0.0.1", resolve));
  const address = holder.address();
  if (typeof address !== "object" || address === null) throw new Error("it does not listen");
  const taken = await doctor("--assistant-port", `${address.port}`);
  expect(taken.code).toBe(0);
  expect(taken.of("assistant")).toMatchObject({ state: "warn" });
  expect(taken.of("assistant").message).toContain(`it is taken by`);
  expect(taken.of("assistant").fix).toContain("--assistant-port");

  const run = join(folder, "data/assistant/run");
  mkdirSync(run, { recursive: true });
  let status = 200;
  const there = createServer((_request, response) => {
    response.statusCode = status;
    response.end("{}");
  });
  servers.push(there);
  await new Promise<void>((resolve) => there.listen(join(run, "control.sock"), resolve));
  const running = await doctor("--assistant-port", `${address.port}`);
  expect(running.of("assistant")).toMatchObject({ state: "ok" });
  expect(running.of("assistant").message).toContain("an assistant already runs");
  status = 404;
  const odd = await doctor();
  expect(odd.of("assistant")).toMatchObject({ state: "warn" });
  expect(odd.of("assistant").message).toContain("it answers with status 404");

  const long = await doctor("--assistant-data-dir", join(folder, "x".repeat(120)));
  expect(long.of("assistant")).toMatchObject({ state: "fail" });
  expect(long.of("assistant").fix).toContain("--assistant-data-dir");
});

it.each([
  ["up", null, "ok", "http://127.0.0.1:7777/v1, for OpenAI clients with any API key (process 7)"],
  ["up", "it answers as a stub", "warn", "it answers as a stub"],
  ["foreign", "it is used", "ok", "another process started it"],
  ["off", "it is off: --assistant on", "ok", "it is off: --assistant on"],
  ["starting", null, "warn", "not ready: it is starting"],
  ["waiting", "port 7777 is taken", "warn", "port 7777 is taken"],
] as const)(
  "berth doctor reports that the assistant of a running server is %s",
  (state, message, expected, text) => {
    const found = createAssistantFinding({
      state,
      url: "http://127.0.0.1:7777",
      pid: 7,
      starts: 1,
      message,
    });
    expect(found.state).toBe(expected);
    expect(found.message).toContain(text);
  },
);

it.each([
  ["up", 3, []],
  ["starting", 1, []],
  ["starting", 2, ["the server could not start the companion: port 7778 is taken"]],
  ["waiting", 1, ["the server could not start the companion: port 7778 is taken"]],
] as const)(
  "berth doctor reports the state %s of a running server's companion that was started %i times",
  (...given) => {
    const [state, starts, expected] = given;
    const report = { state, starts, url: null, pid: null, message: "port 7778 is taken" };
    expect(createCompanionFindings(report).map(({ message }) => message)).toEqual(expected);
  },
);

function has(name: string): boolean {
  const folders = ["/usr/local/bin", "/usr/bin", "/opt/homebrew/bin"];
  return folders.some((bin) => existsSync(join(bin, name)));
}

it("berth doctor searches PATH for caddy, git and ssh", async () => {
  await engine("1.44");
  const { of } = await doctor("--ingress", "process", "--http-port", "0", "--https-port", "0");
  expect(of("ingress").state).toBe(has("caddy") ? "ok" : "fail");
  expect(of("git").state).toBe(has("git") && has("ssh") ? "ok" : "warn");
});

it("berth doctor warns of a data directory that other users can access", async () => {
  await engine("1.44");
  chmodSync(join(folder, "data"), 0o755);
  const { code, of } = await doctor();
  expect(of("data directory")).toMatchObject({ state: "warn" });
  expect(of("data directory").fix).toContain("chmod 700");
  expect(code).toBe(0);
});

it("berth doctor reports a server that has ended, and one that is starting", async () => {
  await engine("1.44");
  mkdirSync(join(folder, "data/run"));
  writeFileSync(join(folder, "data/run/lock.json"), JSON.stringify({ pid: process.pid }));
  expect((await doctor()).of("server")).toMatchObject({ state: "warn" });
  writeFileSync(
    join(folder, "data/run/berth.json"),
    JSON.stringify({
      api: "http://127.0.0.1:9",
      data_dir: "d",
      specs_dir: join(folder, "specs"),
      instance: "i",
      pid: 4_194_305,
      version: "1",
      docker_host: "unix:///x",
    }),
  );
  const { of } = await doctor();
  expect(of("server")).toMatchObject({ state: "warn" });
  expect(of("server").message).toContain(
    "no server runs here now; the last one was process 4194305",
  );
});

it("berth doctor reports an invalid setting, and skips the checks that need the settings", async () => {
  const { code, of } = await doctor("--ingress", "nginx");
  expect(code).toBe(1);
  expect(of("configuration").message).toContain(
    "--ingress must be auto, process, container or off",
  );
  expect(() => of("engine")).toThrow("no finding");
});

it("berth doctor reports a companion that the server could not start, but not a missing session bus", () => {
  const report = { url: null, pid: null, starts: 2, message: "its port is taken" };
  expect(createCompanionFindings({ ...report, state: "no_bus" })).toEqual([]);
  const [found] = createCompanionFindings({ ...report, state: "waiting" });
  expect(found).toMatchObject({ check: "companion", state: "warn" });
  expect(found?.message).toContain("its port is taken");
  expect(found?.fix).toContain("--companion off");
});
