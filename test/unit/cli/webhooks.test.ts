import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished, vi } from "vitest";
import { systemClock } from "../../../src/base/clock.ts";
import { openTestApi } from "../../support/api-harness.ts";
import { type CliOptions, runCommandLine } from "../../support/run-cli.ts";
import { WAIT_OPTIONS } from "../../support/wait-limits.ts";
import { WebhookReceiver } from "../../support/webhook-receiver.ts";

async function open() {
  const api = await openTestApi({ clock: systemClock });
  const folder = mkdtempSync(join(tmpdir(), "berth-cli-"));
  onTestFinished(async () => {
    await api[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true, force: true });
  });
  const environment = {
    BERTH_URL: await api.listen(),
    BERTH_TOKEN: api.token("admin"),
    XDG_CONFIG_HOME: folder,
  };
  const run = (words: readonly string[], options: CliOptions = {}) =>
    runCommandLine(["webhooks", ...words], { workingDirectory: folder, environment, ...options });
  return { api, folder, run };
}

it("berth webhooks creates, lists, tests and deletes webhooks", async () => {
  const { run } = await open();
  await using receiver = await WebhookReceiver.start();
  expect((await run([])).errors).toContain("no webhooks yet");
  const flags = ["--event", "failed", "--event", "reverted", "--app", "web", "--app", "shop"];
  const made = await run(["create", receiver.url, ...flags]);
  expect(made).toMatchObject({ code: 0 });
  const id = /^webhook (wh_\w+) created\nsecret [0-9a-f]{64}\n$/.exec(made.output)?.[1] ?? "";
  const [, row] = (await run(["ls"])).output.split("\n");
  expect(row).toMatch(new RegExp(`^${id} +${receiver.url} +failed, reverted +web, shop +\\S+$`));
  expect((await run(["test", id])).output).toMatch(/^delivery \S+ queued\n$/);
  await vi.waitFor(
    async () =>
      expect((await run(["deliveries", id])).output).toMatch(
        /\S+ +test +- +delivered +1 +answered 204 +\S+\n$/,
      ),
    WAIT_OPTIONS,
  );
  const name = (await run(["deliveries", id, "-o", "name"])).output.trim();
  expect((await run(["redeliver", id, name])).code).toBe(0);
  await vi.waitFor(() => expect(receiver.received).toHaveLength(2), WAIT_OPTIONS);
  expect((await run(["rm", id])).output).toBe(`webhook ${id} deleted\n`);
  expect((await run(["ls", "-o", "json"])).output).toContain('"total": 0');
  expect((await run(["rm", id])).code).toBe(1);
});

it("berth webhooks reads a secret only from a file or standard input", async () => {
  const { api, folder, run } = await open();
  writeFileSync(join(folder, "key"), "from a file\n");
  const url = "https://a.example/";
  const made = await run(["create", url, "--secret", "@key", "-o", "json"]);
  const { id, secret } = JSON.parse(made.output);
  expect(secret).toBeUndefined();
  expect(api.store.webhooks.getSecret(id)).toBe("from a file");
  const piped = await run(["create", url, "--secret", "-", "-o", "json"], { input: "piped in!\n" });
  expect(api.store.webhooks.getSecret(JSON.parse(piped.output).id)).toBe("piped in!");
  const bare = await run(["create", url, "--secret", "hunter2hunter2"]);
  expect(bare.code).toBe(2);
  expect(bare.errors).not.toContain("hunter2");
  const wrong = await run(["create", url, "--event", "exploded"]);
  expect(wrong.code).toBe(2);
  expect(wrong.errors).toContain("build_failed");
});
