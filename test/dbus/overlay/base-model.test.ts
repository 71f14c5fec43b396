import { copyFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { CompanionProcess } from "../../support/companion-process.ts";
import { examplePath } from "../../support/example-app.ts";
import { FrontendClient } from "../../support/frontend-client.ts";
import { getModelFile } from "../../support/gguf/preset-model.ts";
import { TestSessionBus } from "../../support/test-session-bus.ts";

const message =
  "model base is not a chat model: its file has no chat template; use /v1/completions, another model, or give it a template (--chat-template, chatTemplate)";

it("a query fails with the reason if the only local model is a base model without a chat template", async () => {
  const file = await getModelFile("tiny", { template: null });
  await using bus = await TestSessionBus.start();
  await using companion = await CompanionProcess.prepare({
    bus,
    flags: ["--engine", "llama", "--model", `base=${file}`],
  });
  const manifest = "org.example.Notes.json";
  await copyFile(examplePath(`notes-app/${manifest}`), join(companion.manifestsDir, manifest));
  await companion.start();
  await using person = await FrontendClient.connect(bus.address);

  // The second prompt matches tools, which the model would be offered first.
  for (const prompt of ["Name a river.", "Write down a note about milk."]) {
    const turn = await person.waitForEnd(await person.ask(prompt));
    expect(turn).toMatchObject({
      text: "",
      specs: [],
      end: { status: "failed", detail: { code: "model_unsuitable", message } },
    });
  }
  const asked = await companion.berth(["ask", "Name a river."]);
  expect(asked).toMatchObject({ code: 4, stderr: expect.stringContaining(message) });
});
