import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { BerthProcess, fetchText } from "../support/berth-process.ts";
import { getModelFile } from "../support/gguf/preset-model.ts";
import { NODE_WEB } from "../support/images.ts";

const server = join(import.meta.dirname, "../../examples/model-app/server.mjs");

test("an app in a container waits for its model, uses it, and keeps running during restarts of Berth and of the assistant", async () => {
  const program = await readFile(server, "utf8");
  const app = {
    apiVersion: "berth.dev/v1",
    kind: "App",
    metadata: { name: "asker" },
    spec: {
      image: NODE_WEB,
      entrypoint: ["/bin/node", "--input-type=module", "-e", program],
      port: 3000,
      models: ["chat"],
    },
  };
  const model = (running: boolean) =>
    JSON.stringify({
      apiVersion: "berth.dev/v1",
      kind: "Model",
      metadata: { name: "chat" },
      spec: { source: file, running, parallel: 1, contextSize: 512 },
    });
  const file = await getModelFile("tiny");
  await using berth = await BerthProcess.open({
    assistant: true,
    env: { BERTH_ASSISTANT_THREADS: "1" },
    specs: { "app.yaml": JSON.stringify(app) },
  });
  await berth.waitForApp("asker", "it waits for a model that is not there", ({ conditions }) =>
    conditions.some(({ reason }) => reason === "ModelNotFound"),
  );
  await berth.write("chat.yaml", model(false));
  await berth.waitForApp("asker", "it waits for a model that nobody has started", ({ message }) =>
    (message ?? "").includes("berth models start chat"),
  );
  expect((await berth.app("asker")).containers).toEqual([]);
  await berth.write("chat.yaml", model(true));
  const { url } = await berth.waitForAppReady("asker");
  const ask = async () => {
    const answer = await fetch(`${url}/?q=hello`, { signal: AbortSignal.timeout(30_000) });
    return { status: answer.status, text: await answer.text() };
  };
  expect(await fetchText(url)).toContain("ask me");
  const first = await ask();
  expect(first.status).toBe(200);
  expect(first.text.trim()).not.toBe("");

  // The listener belongs to the assistant, so it stays open while Berth is down and after Berth's restart.
  const [before] = (await berth.app("asker")).containers;
  await berth.kill();
  expect((await ask()).status).toBe(200);
  await berth.start();
  await berth.waitForAppReady("asker");
  expect((await ask()).status).toBe(200);

  // Berth opens the listener again after a restart of the assistant.
  const pid = await berth.assistantPid();
  process.kill(pid ?? 0, "SIGKILL");
  await berth.until("the new assistant answers the app", async () => {
    const { status } = await ask();
    return status === 200 && (await berth.assistantPid()) !== pid;
  });
  expect((await berth.app("asker")).containers.map(({ id }) => id)).toEqual([before?.id]);
});
