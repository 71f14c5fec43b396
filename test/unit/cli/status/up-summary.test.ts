import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { afterEach, beforeEach, expect, it } from "vitest";
import { systemClock } from "../../../../src/base/clock.ts";
import { buildProgram } from "../../../../src/cli/program.ts";
import { printUpSummary } from "../../../../src/cli/status/up-summary.ts";
import { openTestApi, type TestApi } from "../../../support/api-harness.ts";
import {
  failedStatus,
  modelManifest,
  modelStatus,
  putModel,
  runningStatus,
  setModelStatus,
} from "../../../support/model-fixtures.ts";
import { noBus } from "../../../support/run-cli.ts";
import { temporaryFolder } from "../../../support/temporary-folder.ts";

let api: TestApi;
let url: string;
let folder: string;

beforeEach(async () => {
  api = await openTestApi({
    clock: systemClock,
    models: [modelManifest("offered", { source: "org/offered" })],
  });
  url = await api.listen();
  folder = temporaryFolder("up");
  mkdirSync(join(folder, "run"));
  writeFileSync(join(folder, "run/token"), api.token("admin"));
});
afterEach(async () => {
  await api[Symbol.asyncDispose]();
});

/** Returns the output of `printUpSummary`. */
async function summary(apiUrl?: string): Promise<string> {
  let text = "";
  const { cli } = buildProgram({
    environment: { HOME: folder, NO_COLOR: "1" },
    workingDirectory: folder,
    input: new PassThrough(),
    inputIsTerminal: true,
    outputIsTerminal: true,
    errorIsTerminal: true,
    columns: 120,
    errorColumns: 120,
    write: async (part) => {
      text += String(part);
    },
    writeError: (part) => {
      text += part;
    },
    writeTerminal: (part) => {
      text += part;
    },
    now: () => 0,
    onInterrupt: () => () => {},
    openSessionBus: noBus,
  });
  const ready = {
    api: url,
    ...(apiUrl === undefined ? {} : { api_url: apiUrl }),
    data_dir: folder,
    specs_dir: join(folder, "specs"),
    instance: "abc",
    pid: process.pid,
    version: "1.2.3",
    docker_host: "unix:///var/run/docker.sock",
  };
  await printUpSummary(cli, ready, undefined, new AbortController().signal);
  return text;
}

it("the summary of `berth up` shows the assistant's endpoint, and how to download a model if there is none", async () => {
  const text = await summary();
  expect(text).toMatch(/^Models at: +http:\/\/127\.0\.0\.1:7777\/v1, for OpenAI clients/m);
  expect(text).toContain("No models yet: ");
  expect(text).toContain("bin/berth models pull ORG/NAME");
  expect(text).not.toContain("offered");
  expect(text).toMatch(/^ {2}bin\/berth models ls --all +list available models$/m);
});

it("the summary of `berth up` lists the models with the reasons of failures, and suggests a chat", async () => {
  putModel(api.store, "small");
  setModelStatus(api.store, "small", (generation) => modelStatus(generation));
  const whole = await summary();
  expect(whole).toMatch(/^small +ready +org\/small$/m);
  expect(whole).toMatch(/^ {2}bin\/berth models start small +load a model$/m);
  putModel(api.store, "large", { source: "org/large", running: true });
  setModelStatus(api.store, "large", runningStatus);
  putModel(api.store, "gone");
  setModelStatus(api.store, "gone", (generation) =>
    failedStatus(generation, "SourceNotFound", "there is no org/gone"),
  );
  const text = await summary();
  expect(text).toMatch(/^gone +failed +org\/gone +there is no org\/gone$/m);
  expect(text).toMatch(/^large +running +org\/large/m);
  expect(text).toMatch(/^ {2}bin\/berth chat large +chat with a model$/m);
});

it("the summary of `berth up` waits for an assistant that is starting, and shows why an assistant is off or not ready", async () => {
  const { assistantReport: daemon } = api.control;
  api.control.assistantReport = {
    ...daemon,
    state: "off",
    url: null,
    message: "off: --assistant off",
  };
  expect(await summary()).toMatch(/^Models at: +off: --assistant off$/m);
  api.control.assistantReport = {
    ...daemon,
    state: "waiting",
    url: null,
    message: "its port is taken",
  };
  expect(await summary()).toMatch(
    /^Models at: +not ready, Berth starts it again soon: its port is taken$/m,
  );
  let looks = 0;
  api.control.assistant = () => {
    looks += 1;
    return looks < 5 ? { ...daemon, state: "starting", url: null } : daemon;
  };
  expect(await summary()).toMatch(/^Models at: +http:\/\/127\.0\.0\.1:7777\/v1/m);
  expect(looks).toBeGreaterThanOrEqual(5);
});

it("the summary of `berth up` shows the companion in one line if there is a session bus", async () => {
  expect(await summary()).not.toContain("Companion");
  const { companionReport: person } = api.control;
  const at = "http://127.0.0.1:7778";
  api.control.companionReport = { ...person, state: "off", message: "it is off" };
  expect(await summary()).not.toContain("Companion");
  api.control.companionReport = { ...person, state: "waiting", message: "its port is taken" };
  expect(await summary()).toMatch(
    /^Companion: +not ready, Berth starts it again soon: its port is taken$/m,
  );
  const message = "it is installed, and does not run";
  api.control.companionReport = { ...person, state: "activated", message };
  expect(await summary()).toMatch(/^Companion: +it is installed, and does not run$/m);
  api.control.companionReport = {
    ...person,
    state: "foreign",
    url: at,
    message: "another program started it",
  };
  expect(await summary()).toMatch(
    /^Companion: +http:\/\/127\.0\.0\.1:7778\/v1, and dev\.assistant\.\* on the session bus; another program started it$/m,
  );
  let looks = 0;
  api.control.companion = () => {
    looks += 1;
    return looks < 5
      ? { ...person, state: "starting" }
      : { ...person, state: "up", url: at, message: null };
  };
  expect(await summary()).toMatch(/^Companion: +http:\/\/127\.0\.0\.1:7778\/v1, and dev/m);
});

it("the summary of `berth up` shows the HTTPS address of the API if its port serves HTTPS", async () => {
  const secure = url.replace("http:", "https:");
  const text = await summary(secure);
  expect(text).toContain(`${secure}; from this machine also ${url}`);
  expect(text).toMatch(/^Try it in a browser: +https:/m);
  expect(text).toContain(`from other machines: berth login ${secure}`);
});
