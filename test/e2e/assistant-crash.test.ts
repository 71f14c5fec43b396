import { expect, test } from "vitest";
import { appFile, BerthProcess, fetchText } from "../support/berth-process.ts";
import { getModelFile } from "../support/gguf/preset-model.ts";
import { WEB } from "../support/images.ts";
import { modelSpecFile } from "../support/model-e2e-harness.ts";

test("an app keeps its model while the assistant crashes and restarts", async () => {
  const source = await getModelFile("tiny");
  await using berth = await BerthProcess.open({
    assistant: true,
    env: { BERTH_ASSISTANT_THREADS: "1" },
    specs: {
      "web.yaml": appFile("web", { image: WEB, port: 8080, env: { BODY: "here" } }),
      "chat.yaml": modelSpecFile("chat", { source, running: true, parallel: 1 }),
    },
  });
  const { url } = await berth.waitForAppReady("web");
  const modelRuns = () =>
    berth.until("the model runs", async () => (await berth.client.models.get("chat")).ready);
  await modelRuns();
  const before = await (await berth.container("web")).inspect();
  const pid = await berth.assistantPid();
  if (pid === undefined) throw new Error("no assistant runs");

  process.kill(pid, "SIGKILL");
  await berth.until("the crash is known", async () => {
    const { ready } = await berth.client.models.get("chat");
    expect(await fetchText(url)).toContain("here");
    return !ready;
  });
  await modelRuns();
  expect(await berth.assistantPid()).not.toBe(pid);
  const after = await (await berth.container("web")).inspect();
  expect([after.Id, after.State.StartedAt]).toEqual([before.Id, before.State.StartedAt]);
  expect(await berth.app("web")).toMatchObject({ ready: true, generation: 1 });
});
