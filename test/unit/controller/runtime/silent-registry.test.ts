import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type ServerResponse } from "node:http";
import os from "node:os";
import path from "node:path";
import { expect, test } from "vitest";
import { DockerRuntime } from "../../../../src/controller/runtime/docker-runtime.ts";
import type { BuildImageOptions } from "../../../../src/controller/runtime/port.ts";
import { VirtualClock } from "../../../support/virtual-clock.ts";

const { signal } = new AbortController();

const options: BuildImageOptions = {
  tag: "berth.test/app:1",
  dockerfile: "Dockerfile",
  args: {},
  builder: "classic",
  auths: [],
};

/** Starts an engine that answers at once, except pulls and builds, which get `messages` and then nothing. */
async function startEngine(messages: readonly unknown[] | undefined) {
  const dir = await mkdtemp(path.join(os.tmpdir(), "berth-engine-"));
  const clock = new VirtualClock();
  let isSilent = false;
  const speak = (response: ServerResponse) => {
    if (messages) {
      response.writeHead(200);
      for (const message of messages) response.write(`${JSON.stringify(message)}\r\n`);
    }
    isSilent = true;
  };
  const server = createServer((request, response) => {
    const url = request.url ?? "";
    if (/\/(build|images\/create)\?/.test(url)) {
      request.resume();
      request.on("end", () => speak(response));
      return;
    }
    response.writeHead(200, { "Content-Type": "application/json" });
    response.end(JSON.stringify({ Version: "20.10.24", ApiVersion: "1.41" }));
  });
  const socket = path.join(dir, "docker.sock");
  await new Promise<void>((resolve) => server.listen(socket, resolve));
  const runtime = new DockerRuntime({ host: `unix://${socket}`, clock });
  return {
    clock,
    runtime,
    waitForSilence: () => expect.poll(() => isSilent).toBe(true),
    async [Symbol.asyncDispose]() {
      await runtime[Symbol.asyncDispose]();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      await rm(dir, { recursive: true, force: true });
    },
  };
}

async function* noContext(): AsyncGenerator<Uint8Array> {
  yield Buffer.alloc(1);
}

test("if a registry never answers, the pull fails after two minutes, and the error names the registry and not the engine", async () => {
  await using engine = await startEngine(undefined);
  const pull = engine.runtime.pullImage("registry.test/a:1", undefined, () => {}, signal);
  const outcome = pull.catch((error: unknown) => error);
  await engine.waitForSilence();
  await engine.clock.advance(121_000);
  expect(await outcome).toMatchObject({
    code: "registry_unreachable",
    message: "cannot pull the image registry.test/a:1: the registry did not answer within 120 s",
  });
});

test("a registry that stops in the middle of a layer ends a pull after five minutes", async () => {
  await using engine = await startEngine([{ status: "Pulling from a", id: "1" }]);
  let isReported = false;
  const report = () => (isReported = true);
  const pull = engine.runtime.pullImage("registry.test/a:1", undefined, report, signal);
  const outcome = pull.catch((error: unknown) => error);
  await expect.poll(() => isReported).toBe(true);
  await engine.clock.advance(301_000);
  expect(await outcome).toMatchObject({
    code: "registry_unreachable",
    message: expect.stringContaining("did not answer within 300 s"),
  });
});

test("a build ends after two minutes if the registry of its base image never answers", async () => {
  await using engine = await startEngine([
    { stream: "Step 1/2 : FROM registry.test/base:1" },
    { stream: "\n" },
  ]);
  let isRead = false;
  const build = engine.runtime.buildImage(noContext(), options, () => (isRead = true), signal);
  const outcome = build.catch((error: unknown) => error);
  await expect.poll(() => isRead).toBe(true);
  await engine.clock.advance(121_000);
  expect(await outcome).toMatchObject({
    code: "registry_unreachable",
    message: "cannot pull the image registry.test/base:1: the registry did not answer within 120 s",
  });
});

test("a silent step of a build is not mistaken for a silent registry", async () => {
  await using engine = await startEngine([
    { stream: "Step 1/3 : FROM registry.test/base:1" },
    { stream: "\n" },
    { stream: " ---> 0123456789ab\n" },
    { stream: "Step 2/3 : RUN sleep 1000" },
    { stream: "\n" },
    { stream: " ---> Running in 0123456789ab\n" },
  ]);
  const lines: string[] = [];
  const aborting = new AbortController();
  const onOutput = ({ text }: { text: string }) => void lines.push(text);
  const build = engine.runtime.buildImage(noContext(), options, onOutput, aborting.signal);
  const outcome = build.catch((error: unknown) => error);
  await expect.poll(() => lines).toContain("RUN sleep 1000");
  await engine.clock.advance(1_000_000);
  aborting.abort(new Error("the test ends"));
  expect(await outcome).toMatchObject({ message: "the test ends" });
});
