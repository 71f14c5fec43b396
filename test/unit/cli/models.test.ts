import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { parse } from "yaml";
import { systemClock } from "../../../src/base/clock.ts";
import { formatParameterCount } from "../../../src/cli/views/models.ts";
import type { ModelProgress } from "../../../src/controller/port.ts";
import { MODEL_FINALIZER } from "../../../src/resources/resource.ts";
import { condition, openTestApi, type TestApi } from "../../support/api-harness.ts";
import { startInferenceHttp } from "../../support/inference-http-harness.ts";
import {
  absentStatus,
  assistantModel,
  failedStatus,
  modelManifest,
  modelStatus,
  putModel,
  runningStatus,
  setModelStatus,
} from "../../support/model-fixtures.ts";
import { type CliOptions, type CliResult, runCommandLine } from "../../support/run-cli.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";
import { key, Terminal } from "../../support/terminal.ts";

const MIB = 1024 * 1024;
const repository = "org/small";

let api: TestApi;
let environment: Record<string, string>;
let folder: string;

beforeEach(async () => {
  api = await openTestApi({
    clock: systemClock,
    models: [modelManifest("offered", { source: "org/offered-GGUF", quantization: "Q4_K_M" })],
  });
  folder = temporaryFolder("models");
  environment = {
    BERTH_URL: await api.listen(),
    BERTH_TOKEN: api.token("admin"),
    XDG_CONFIG_HOME: join(folder, "config"),
  };
});
afterEach(async () => {
  await api[Symbol.asyncDispose]();
});

const run = (line: string, options: CliOptions = {}): Promise<CliResult> =>
  runCommandLine(line.split(" "), { workingDirectory: folder, environment, ...options });
const terminal = (line: string, columns = 100) =>
  new Terminal(line.split(" "), { environment, columns });

async function done(line: string, options: CliOptions = {}): Promise<string> {
  const result = await run(line, options);
  expect({ ...result, output: "" }).toMatchObject({ code: 0 });
  return result.output;
}

/** Waits until the store has the Model, and returns it. */
async function declared(name: string) {
  await expect.poll(() => api.store.get("Model", name)).toBeDefined();
  return api.store.get("Model", name);
}

function moves(name: string, step: ModelProgress["step"], rest: Partial<ModelProgress> = {}): void {
  api.control.progress.set(name, {
    step,
    doneBytes: 0,
    totalBytes: null,
    bytesPerSecond: null,
    ...rest,
  });
}

function downloading(name: string): void {
  setModelStatus(api.store, name, (generation) =>
    absentStatus(generation, "downloading", [condition("Ready", "False", generation)]),
  );
}

function arrives(name: string): void {
  api.control.progress.delete(name);
  setModelStatus(api.store, name, (generation) => modelStatus(generation));
}

function runs(name: string): void {
  api.control.progress.delete(name);
  setModelStatus(api.store, name, runningStatus);
}

/** Returns the model as the API shows it. */
async function details(name: string): Promise<Record<string, unknown>> {
  return JSON.parse(await done(`models show ${name} -o json`));
}

describe("berth models ls", () => {
  it("lists the models of the server, and counts those of the catalog", async () => {
    putModel(api.store, "small");
    putModel(api.store, "large");
    putModel(api.store, "broken");
    runs("small");
    moves("large", "downloading", {
      doneBytes: 30 * MIB,
      totalBytes: 120 * MIB,
      bytesPerSecond: 10 * MIB,
    });
    downloading("large");
    setModelStatus(api.store, "broken", (generation) =>
      failedStatus(generation, "SourceDenied", "the hub wants a token"),
    );
    api.control.assistantModels = [assistantModel("own")];
    const { output, errors } = await run("models ls");
    const [head, ...rows] = output.trimEnd().split("\n");
    expect(head).toMatch(/^NAME +ID +STATUS +SIZE +QUANT +CONTEXT +MEMORY +ERROR$/);
    expect(rows[0]).toMatch(/^broken +org\/broken +failed +- .*the hub wants a token$/);
    expect(rows[1]).toMatch(/^large +org\/large +downloading 25% 10 MiB\/s +120 MiB /);
    expect(rows[2]).toMatch(/^small +org\/small +running +3.9 KiB +Q4_K_M +8192 +7.8 KiB +-$/);
    expect(rows[3]).toMatch(/^own +file +ready +77 B/);
    expect(rows).toHaveLength(4);
    expect(errors).toBe("1 more model is in the catalog: `berth models ls --all`\n");
    expect(await done("models")).toBe(output);
  });

  it("lists all models, or only those with a status, in every output format", async () => {
    putModel(api.store, "small");
    arrives("small");
    expect(await done("models ls --all")).toMatch(/^offered +org\/offered-GGUF +absent/m);
    expect(await done("models ls --status ready -o name")).toBe("model/small\n");
    expect(await done("models ls --status absent -o name")).toBe("model/offered\n");
    expect(await done("models ls -o wide")).toMatch(/chat +llama +1M +8.8 KiB +small-q4_k_m.gguf/);
    expect(JSON.parse(await done("models list -o json"))).toMatchObject({
      total: 1,
      models: [{ name: "small", status: "ready" }],
    });
    expect(parse(await done("models ls -a -o yaml"))).toMatchObject({ total: 2 });
    expect((await run("models ls --status fine")).code).toBe(2);
  });

  it("suggests a download if there is no model", async () => {
    expect((await run("models ls")).errors).toContain("`berth models pull ORG/NAME`");
  });
});

describe("berth models pull", () => {
  it("shows a progress bar on a terminal, then the file and its digest", async () => {
    using person = terminal(`models pull ${repository}`);
    expect((await declared("small"))?.spec).toEqual({ source: repository });
    moves("small", "resolving");
    downloading("small");
    await person.waitForText("small  asking the source ...");
    moves("small", "downloading", { doneBytes: MIB, totalBytes: 4 * MIB, bytesPerSecond: MIB });
    await person.waitForText(
      "small  [######------------------]   25 %  1 MiB of 4 MiB  1 MiB/s  3s left",
    );
    moves("small", "verifying", { doneBytes: 2 * MIB, totalBytes: 4 * MIB });
    await person.waitForText(/small checking {2}\[#{12}-{12}\] +50 %/);
    arrives("small");
    await person.waitForText(/\[#{24}\] +100 %/);
    await person.waitForText(
      `model/small is on disk: small-q4_k_m.gguf, 3.9 KiB, sha256 ${"ab".repeat(32)}`,
    );
    await person.waitForText("`berth models start small`");
    expect(await person.ended).toBe(0);
    expect(person.screen).toContain("\r\u001b[K");
  });

  it("writes progress lines without a terminal, and only the result to standard output", async () => {
    const ended = run(`models pull ${repository}`);
    await declared("small");
    moves("small", "downloading", { doneBytes: MIB, totalBytes: 4 * MIB, bytesPerSecond: MIB });
    downloading("small");
    // The stream sends four events a second, but a line is printed only every few seconds.
    await expect.poll(async () => (await details("small"))["progress"]).toBe(0.25);
    arrives("small");
    const { code, output, errors } = await ended;
    expect(code).toBe(0);
    expect(output).toMatch(/^model\/small is on disk: [^\n]+\n$/);
    expect(errors.split("\n").length).toBeLessThanOrEqual(3);
    expect(errors).not.toContain("\u001b");
  });

  it("accepts a quantization after a colon or as a flag, and several ids", async () => {
    const both = terminal("models pull org/a-GGUF:Q8_0 org/b --quiet");
    expect((await declared("a"))?.spec).toEqual({ source: "org/a-GGUF", quantization: "Q8_0" });
    expect(api.store.get("Model", "b")).toBeUndefined();
    arrives("a");
    await declared("b");
    arrives("b");
    await both.waitForText("model/b is on disk");
    expect(await both.ended).toBe(0);
    expect(await done("models pull org/c --quantization Q4_0 --no-wait")).toBe(
      "model/c is being downloaded\n",
    );
    expect((await declared("c"))?.spec).toEqual({ source: "org/c", quantization: "Q4_0" });
  });

  it("declares a Model with the fields that the flags set", async () => {
    await done(
      `models pull org/d --name mine --file q/d.gguf --revision v1 --sha256 ${"0".repeat(64)} --credential hub --no-wait`,
    );
    expect(api.store.get("Model", "mine")?.spec).toEqual({
      source: "org/d",
      file: "q/d.gguf",
      revision: "v1",
      sha256: "0".repeat(64),
      credential: "hub",
    });
    await done("models pull https://files.example/x/Tiny.Model.gguf --no-wait");
    expect(api.store.get("Model", "tiny-model")?.spec.source).toBe(
      "https://files.example/x/Tiny.Model.gguf",
    );
    await done("models pull ./local.gguf --no-wait -o name");
    expect(api.store.get("Model", "local")?.spec.source).toBe(join(folder, "local.gguf"));
    expect((await run("models pull org/a org/b --name x")).code).toBe(2);
  });

  it("refuses to replace an existing model by a different one", async () => {
    putModel(api.store, "small", { source: repository, quantization: "Q4_0", running: true });
    const other = await run("models pull org/other --name small --no-wait");
    expect(other.code).toBe(2);
    expect(other.errors).toContain('model "small" already exists, with the source org/small');
    expect(other.errors).toContain("--name NAME");
    await done("models pull small --revision v2 --no-wait");
    expect(api.store.get("Model", "small")?.spec).toEqual({
      source: repository,
      quantization: "Q4_0",
      running: true,
      revision: "v2",
    });
  });

  it("verifies an existing model again", async () => {
    putModel(api.store, "small");
    arrives("small");
    await done("models pull small --no-wait");
    expect(api.store.get("Model", "small")?.metadata.annotations).toHaveProperty([
      "berth.dev/retried-at",
    ]);
  });

  it("fails with the reason, and shows the errors that preceded a retry", async () => {
    using person = terminal(`models pull ${repository}`);
    await declared("small");
    moves("small", "resolving");
    setModelStatus(api.store, "small", (generation) => ({
      ...absentStatus(generation, "downloading", [
        condition("Ready", "False", generation, { message: "the hub does not answer; once more" }),
      ]),
      nextRetryAt: "2030-01-01T00:00:10.000Z",
    }));
    await person.waitForText("small: the hub does not answer; once more\n");
    api.control.progress.delete("small");
    setModelStatus(api.store, "small", (generation) =>
      failedStatus(generation, "SourceDenied", "org/small is gated"),
    );
    await person.waitForText(
      /error: model "small" has failed: org\/small is gated\ntry: +`berth models show small`/,
    );
    expect(await person.ended).toBe(1);
  });

  it("leaves the download running on the server after Ctrl-C, and exits with 3 after a timeout", async () => {
    using person = terminal(`models pull ${repository}`);
    await declared("small");
    moves("small", "downloading", { doneBytes: MIB, totalBytes: 4 * MIB });
    downloading("small");
    await person.waitForText("25 %");
    person.interrupt();
    await person.waitForText("the server continues");
    expect(await person.ended).toBe(130);
    expect(api.store.get("Model", "small")?.metadata.deletionTimestamp).toBeNull();
    const late = await run("models pull small --timeout 400ms");
    expect(late.code).toBe(3);
    expect(late.errors).toMatch(/model "small" is not on disk after 0s: downloading/);
  });

  it("prints a dry run, and changes nothing", async () => {
    const output = await done(`models pull ${repository} --dry-run`);
    expect(output).toContain('model/small: would create model "small" and download it');
    expect(output).toContain("1. download small  (not on disk)");
    expect(api.store.list("Model")).toEqual([]);
  });

  it("prints the error of the server for an unknown id", async () => {
    const wrong = await run("models pull offred");
    expect(wrong.code).toBe(1);
    expect(wrong.errors).toMatch(/there is no model "offred".*did you mean "offered"/is);
  });
});

describe("berth models start and stop", () => {
  it("start waits until the model serves requests, and shows how to use it", async () => {
    using person = terminal(`models start ${repository} --context 4096 --parallel 2`);
    await expect.poll(() => api.store.get("Model", "small")?.spec.running).toBe(true);
    expect(api.store.get("Model", "small")?.spec).toMatchObject({ contextSize: 4096, parallel: 2 });
    moves("small", "downloading", { doneBytes: MIB, totalBytes: 2 * MIB });
    downloading("small");
    await person.waitForText("50 %");
    api.control.progress.delete("small");
    setModelStatus(api.store, "small", (generation) => ({
      ...modelStatus(generation, { phase: "starting" }),
      conditions: [condition("Ready", "False", generation, { reason: "Loading" })],
    }));
    await person.waitForText("loading ...");
    runs("small");
    await person.waitForText("model/small is running: up to 8192 tokens, 7.8 KiB of memory\n");
    await person.waitForText("berth chat small\n");
    await person.waitForText("curl http://127.0.0.1:7777/v1/chat/completions");
    await person.waitForText('base URL http://127.0.0.1:7777/v1, model "small", any API key');
    expect(await person.ended).toBe(0);
  });

  it("start fails at once if there is not enough memory", async () => {
    putModel(api.store, "small");
    arrives("small");
    const ended = run("models start small");
    await expect.poll(() => api.store.get("Model", "small")?.spec.running).toBe(true);
    setModelStatus(api.store, "small", (generation) => ({
      ...modelStatus(generation),
      conditions: [
        condition("Ready", "False", generation, {
          reason: "InsufficientMemory",
          message: "2 GiB are missing",
        }),
        condition("Downloaded", "True", generation),
      ],
    }));
    const { code, errors } = await ended;
    expect(code).toBe(1);
    expect(errors).toMatch(/model "small" does not run: 2 GiB are missing\ntry: .*berth models ls/);
  });

  it("start --context changes only the context of the spec", async () => {
    putModel(api.store, "small", { source: repository, quantization: "Q4_0" }, "cli");
    await done("models start small --context 1024 --no-wait");
    expect(api.store.get("Model", "small")?.spec).toEqual({
      source: repository,
      quantization: "Q4_0",
      contextSize: 1024,
      running: true,
    });
    expect((await run("models start small --context 5")).code).toBe(2);
  });

  it("stop unloads one model, or all running models", async () => {
    putModel(api.store, "small", { source: repository, running: true });
    putModel(api.store, "large", { source: "org/large", running: true });
    runs("small");
    runs("large");
    expect(await done("models stop small")).toBe("model/small is stopping\n");
    expect(api.store.get("Model", "small")?.spec.running).toBe(false);
    expect(await done("models stop small")).toBe("model/small is already stopped\n");
    expect(await done("models stop --dry-run")).toBe('model/large: would stop model "large"\n');
    expect(await done("models stop")).toBe("model/large is stopping\n");
    expect((await run("models stop")).errors).toBe("no model runs\n");
  });

  it("start and stop need --force if a spec file owns the field", async () => {
    putModel(api.store, "small", { source: repository, running: true }, "file:m.yaml");
    runs("small");
    const refused = await run("models stop small");
    expect(refused.code).toBe(1);
    expect(refused.errors).toMatch(/set by the file m\.yaml.*use --force/s);
    await done("models stop small --force");
    expect(api.store.get("Model", "small")?.spec.running).toBe(false);
  });
});

function policy(name: string): string | undefined {
  return api.store.get("Model", name)?.metadata.annotations["berth.dev/file-policy"];
}

describe("berth models rm", () => {
  it("asks for confirmation on a terminal, and deletes the files", async () => {
    putModel(api.store, "small");
    arrives("small");
    using hesitant = terminal("models rm small");
    await hesitant.waitForText("Remove small (3.9 KiB)? [y/N]");
    hesitant.type(`n${key.enter}`);
    await hesitant.waitForText("nothing was removed");
    expect(await hesitant.ended).toBe(1);
    expect(api.store.get("Model", "small")?.metadata.deletionTimestamp).toBeNull();
    using sure = terminal("models rm small");
    await sure.waitForText("[y/N]");
    sure.type(`y${key.enter}`);
    await sure.waitForText("model/small is being removed; its files are deleted (3.9 KiB)");
    expect(await sure.ended).toBe(0);
    expect(policy("small")).toBe("delete");
  });

  it("keeps a file that the user has put on the machine", async () => {
    putModel(api.store, "local", { source: "/srv/models/local.gguf" });
    expect(await done("models rm local -y")).toBe("model/local is being removed; its file stays\n");
  });

  it("keeps the files with --keep-files, and removes several models in one call", async () => {
    putModel(api.store, "small");
    putModel(api.store, "large");
    expect(await done("models rm small large --keep-files -y")).toBe(
      "model/small is being removed; its files stay\nmodel/large is being removed; its files stay\n",
    );
    expect(policy("small")).toBeUndefined();
    expect(api.store.get("Model", "large")?.metadata.deletionTimestamp).not.toBeNull();
  });

  it("removes nothing if one of the models does not exist", async () => {
    putModel(api.store, "small");
    const result = await run("models rm small smal");
    expect(result.code).toBe(1);
    expect(result.errors).toContain('"smal"');
    expect(api.store.get("Model", "small")?.metadata.deletionTimestamp).toBeNull();
    expect(await done("models rm nothing --ignore-not-found")).toBe(
      "model/nothing does not exist\n",
    );
  });

  it("berth delete also removes a model, as it removes resources of other kinds", async () => {
    putModel(api.store, "small");
    putModel(api.store, "large");
    expect(await done("delete model small --files")).toBe("model/small deleting\n");
    expect(policy("small")).toBe("delete");
    expect(await done("delete model/large")).toBe("model/large deleting\n");
    expect(policy("large")).toBeUndefined();
    expect(api.store.get("Model", "large")?.metadata.finalizers).toContain(MODEL_FINALIZER);
  });
});

describe("berth models show", () => {
  it("shows the source, size, memory, owners and usage of a model", async () => {
    putModel(api.store, "small", { source: repository, running: true }, "file:m.yaml");
    runs("small");
    api.store.events.record({
      kind: "Model",
      name: "small",
      type: "Normal",
      reason: "Loaded",
      message: "answers",
    });
    const text = await done("models show small");
    for (const wanted of [
      /^Name: +small$/m,
      /^ID: +org\/small$/m,
      /^Status: +running, ready$/m,
      /^Commit: +c0ffee$/m,
      /^Model: +llama, 1M parameters, Q4_K_M, chat$/m,
      /^Context: +8192 tokens of 32768$/m,
      /^Memory: +7.8 KiB in use\n +8.8 KiB preferred, 4.9 KiB at least$/m,
      /^Requests at once: +4$/m,
      new RegExp(`small-q4_k_m.gguf  3.9 KiB\n +sha256 ${"ab".repeat(32)}\n`),
      /Loaded +True/,
      /file:m\.yaml: +spec\.source, spec\.running/,
      /Normal +Loaded +answers/,
      /Use it:\n {2}berth chat small\n/,
    ])
      expect(text).toMatch(wanted);
    expect(await done("describe model small")).toBe(text);
    expect(await done("describe model/small")).toBe(text);
  });

  it("shows catalog entries and files, and reports an unknown model", async () => {
    api.control.assistantModels = [assistantModel("own")];
    expect(await done("models show own")).toContain("Start it:\n  berth models start own");
    expect(await done("models inspect offered")).toMatch(/^Status: +absent$/m);
    expect((await run("models show nothing")).code).toBe(1);
  });
});

/** Returns the shell completions that Tab offers for the letter "s", which the user has typed after `words`. */
async function complete(words: readonly string[]): Promise<string> {
  const line = ["__complete", "--current", "s", "--", ...words];
  return (await runCommandLine(line, { environment })).output;
}

describe("other verbs with models", () => {
  it("get lists only Model resources; completion shows the states of models", async () => {
    putModel(api.store, "small");
    arrives("small");
    api.control.assistantModels = [assistantModel("own")];
    expect(await done("get models -o name")).toBe("model/small\n");
    expect(await done("get m small")).toMatch(/^small +org\/small +ready/m);
    for (const words of [["models", "start"], ["models", "rm", "x"], ["chat"], ["get", "models"]])
      expect(await complete(words)).toContain("small\tready, org/small\n");
  });

  it("diff and a dry run show the plan of a Model", async () => {
    writeFileSync(
      join(folder, "m.yaml"),
      "apiVersion: berth.dev/v1\nkind: Model\nmetadata: { name: small }\nspec: { source: org/small }\n",
    );
    api.control.modelPlan = { blockedBy: "2 GiB are missing" };
    const { code, output } = await run("diff -f m.yaml");
    expect(code).toBe(1);
    expect(output).toContain("model/small (new)\n  + spec.source: org/small\n");
    expect(output).toContain(
      "  plan:\n    waits: 2 GiB are missing\n    1. download small  (not on disk)\n",
    );
    expect(await done("apply -f m.yaml --dry-run")).toContain("    1. download small");
  });

  it("apply --wait waits for Models to be on disk or running, as declared", async () => {
    writeFileSync(
      join(folder, "m.yaml"),
      ["small", "large"]
        .map(
          (name) =>
            `apiVersion: berth.dev/v1\nkind: Model\nmetadata: { name: ${name} }\nspec: { source: org/${name}, running: ${name === "small"} }\n`,
        )
        .join("---\n"),
    );
    const ended = run("apply -f m.yaml --wait --timeout 20s");
    await declared("small");
    await declared("large");
    runs("small");
    arrives("large");
    const { code, output } = await ended;
    expect(output).toContain("all 2 models are ready\n");
    expect(code).toBe(0);
  });

  it("status shows the assistant, the models, and the models that need attention", async () => {
    putModel(api.store, "small", { source: repository, running: true });
    putModel(api.store, "broken");
    runs("small");
    setModelStatus(api.store, "broken", (generation) =>
      failedStatus(generation, "DigestMismatch", "what came is something else"),
    );
    const text = await done("status");
    expect(text).toMatch(/^Models: +2, of which 1 ready and 1 running$/m);
    expect(text).toMatch(/^Assistant: +http:\/\/127\.0\.0\.1:7777\/v1, for OpenAI clients/m);
    expect(text).toContain("model/broken failed: what came is something else");
    api.control.assistantReport = {
      state: "waiting",
      url: null,
      pid: null,
      starts: 3,
      message: "it ended with code 1",
    };
    expect(await done("status")).toMatch(
      /^Assistant: +not ready, Berth starts it again soon: it ended with code 1, started 3 times$/m,
    );
  });
});

describe("a chat with a model that does not run", () => {
  it("offers to start the model", async () => {
    await using assistant = await startInferenceHttp();
    const [tiny] = assistant.service.known;
    if (!tiny) throw new Error("the scripted service knows no model");
    putModel(api.store, "small");
    arrives("small");
    const line = `chat small --assistant-url ${assistant.url}`;
    const elsewhere = await runCommandLine(line.split(" "), { environment, input: "Hi" });
    expect(elsewhere.code).toBe(1);
    expect(elsewhere.errors).toMatch(
      /model "small" is not running.*\ntry: +`berth models start small`/,
    );
    using person = terminal(line);
    await person.waitForText("Model small is not running. Start it? [y/N]");
    person.type(`y${key.enter}`);
    await expect.poll(() => api.store.get("Model", "small")?.spec.running).toBe(true);
    assistant.service.known = [tiny, { ...tiny, id: "small", aliases: [] }];
    runs("small");
    await person.waitForText("small, up to 2048 tokens");
    person.type(`Hi${key.enter}`);
    await person.waitForText("Hello there");
    expect(assistant.service.requests[0]?.model).toBe("small");
    person.type(key.end);
    expect(await person.ended).toBe(0);
  });

  it("reports a model that neither the assistant nor the server knows", async () => {
    await using assistant = await startInferenceHttp();
    const line = `chat nothing --assistant-url ${assistant.url}`;
    const { code, errors } = await runCommandLine(line.split(" "), { environment, input: "Hi" });
    expect(code).toBe(1);
    expect(errors).toContain('the assistant has no model "nothing"');
  });
});

it("numbers of parameters are printed in a short form", () => {
  expect([null, 999, 494_032_768, 7_240_000_000, 70_600_000_000].map(formatParameterCount)).toEqual(
    ["", "999", "494M", "7.2B", "70.6B"],
  );
});
