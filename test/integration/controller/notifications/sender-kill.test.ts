import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect, it, onTestFinished, vi } from "vitest";
import { bundleProgram } from "../../../support/bundle-program.ts";
import { temporaryFolder } from "../../../support/temporary-folder.ts";
import { WAIT_OPTIONS } from "../../../support/wait-limits.ts";
import { WebhookReceiver } from "../../../support/webhook-receiver.ts";

const PROGRAM = await bundleProgram("test/support/webhook-process.ts");

function run(...words: readonly string[]) {
  const child = spawn(process.execPath, [PROGRAM, ...words], {
    stdio: ["pipe", "inherit", "inherit"],
  });
  const exit = once(child, "exit");
  const kill = async () => {
    child.kill("SIGKILL");
    await exit;
  };
  onTestFinished(kill);
  return kill;
}

it("a delivery that kill -9 interrupts is sent again after the start, with the same id", async () => {
  const dataDir = temporaryFolder("webhooks");
  await using receiver = await WebhookReceiver.start();
  receiver.script.push("hang");
  const kill = run(dataDir, receiver.url);
  await vi.waitFor(() => expect(receiver.received).toHaveLength(1), WAIT_OPTIONS);
  await kill();
  run(dataDir);
  await vi.waitFor(() => expect(receiver.received).toHaveLength(2), WAIT_OPTIONS);
  const [first, second] = receiver.received;
  expect(second?.body).toBe(first?.body);
  expect(second?.headers["x-berth-delivery"]).toBe(first?.headers["x-berth-delivery"]);
  expect(second?.headers["x-berth-signature-256"]).toBe(first?.headers["x-berth-signature-256"]);
});
