import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { Registry } from "prom-client";
import { buildInferenceServer } from "../../src/assistant/inference/http/inference-server.ts";
import { RoutedInference } from "../../src/assistant/inference/routing/routed-inference.ts";
import { openLedger } from "../../src/assistant/ledger/ledger.ts";
import { ProviderAddresses } from "../../src/assistant/remote/address/provider-addresses.ts";
import { Consent } from "../../src/assistant/remote/consent.ts";
import { RemoteInference } from "../../src/assistant/remote/egress/remote-inference.ts";
import { ProviderHttpClient } from "../../src/assistant/remote/provider-http/provider-http-client.ts";
import { systemClock } from "../../src/base/clock.ts";
import { silentLogger } from "../../src/base/logger.ts";
import { ScriptedProviderDirectory } from "../../test/support/provider/scripted-provider-directory.ts";
import { ScriptedService } from "../../test/support/scripted-service.ts";

/**
 * The program `surface.ts <ledger directory> <provider's origin>` runs the companion's HTTP surface in its own process,
 * with all parts that handle a request to a provider. It reports its URL at the start, and its state on request.
 */
const [dir = "", origin = ""] = process.argv.slice(2);
const [clock, logger] = [systemClock, silentLogger];
const ledger = await openLedger({ dir, clock, logger, version: "bench" });
const book = new ScriptedProviderDirectory();
book.add("bench", `${origin}/v1`, "sk-bench");
const addresses = new ProviderAddresses({ ownPorts: () => new Set() });
const http = new ProviderHttpClient({ addresses, clock });
const consent = new Consent(["prompt"]);
const remote = new RemoteInference({ http, providers: book, ledger, consent, clock, logger });
const aliases = () => new Map([["best", ["remote:bench:model"]]]);
const routed = new RoutedInference({
  local: new ScriptedService(),
  remote,
  aliases,
  clock,
  logger,
});
const metrics = new Registry();
const server = buildInferenceServer({
  service: routed,
  routes: routed,
  metrics,
  version: "bench",
  clock,
  logger,
});

export interface SurfaceState {
  /** The size of the heap in bytes, measured after a garbage collection if "memory" was requested. */
  readonly heapBytes: number;
  readonly rssBytes: number;
  /** The processor time of all threads since the start. */
  readonly cpuMs: number;
  /**
   * The median duration of one durable append to the ledger, in milliseconds. It is measured over appends that follow
   * each other.
   */
  readonly appendMs: number;
}

setFlagsFromString("--expose-gc");
const collect: () => void = runInNewContext("gc");

async function state(isCollected: boolean): Promise<SurfaceState> {
  const { user, system } = process.cpuUsage();
  const took: number[] = [];
  for (let turn = 0; turn < 11; turn += 1) {
    const began = performance.now();
    await ledger.append({ name: "egress.send", fields: { provider: "bench" } });
    took.push(performance.now() - began);
  }
  if (isCollected) collect();
  const { heapUsed, rss } = process.memoryUsage();
  const appendMs = took.toSorted((a, b) => a - b)[5] ?? 0;
  return { heapBytes: heapUsed, rssBytes: rss, cpuMs: (user + system) / 1000, appendMs };
}

async function end(): Promise<void> {
  await server.close();
  await remote[Symbol.asyncDispose]();
  await http[Symbol.asyncDispose]();
  await ledger[Symbol.asyncDispose]();
  process.exit();
}

process.on("message", (word) => void state(word === "memory").then((told) => process.send?.(told)));
process.once("disconnect", () => void end());
process.send?.(await server.listen({ host: "127.0.0.1", port: 0 }));
