import { systemClock } from "../../src/base/clock.ts";
import { silentLogger } from "../../src/base/logger.ts";
import { WebhookSender } from "../../src/controller/notifications/webhook-sender.ts";
import { openStore } from "../../src/store/sqlite-store.ts";

/**
 * A separate process that sends webhooks, for tests that kill it: `DIR` opens the store and sends pending deliveries;
 * `DIR URL` first creates a webhook and queues one delivery.
 */
const [dataDir, url] = process.argv.slice(2);
if (dataDir === undefined) throw new Error("usage: webhook-process.ts DIR [URL]");

const store = openStore({ dataDir, clock: systemClock });
const sender = new WebhookSender({
  store,
  clock: systemClock,
  logger: silentLogger,
  version: "1",
  random: Math.random,
});
sender.start();
if (url !== undefined) {
  const { id } = store.webhooks.create({ url, events: [], apps: [], secret: "kept by two" });
  sender.test(id);
}
process.stdin.resume();
