import { delay, systemClock } from "../../src/base/clock.ts";
import { startBackend } from "../support/backend.ts";
import { CaddyHarness } from "../support/caddy-harness.ts";
import { type IngressHarness, ingressContract } from "./ingress-contract.ts";

ingressContract("Caddy as a process", async (): Promise<IngressHarness> => {
  const harness = await CaddyHarness.open();
  const backends = [await startBackend("one"), await startBackend("two")] as const;
  await harness.waitUntilReady();
  return {
    ingress: harness.ingress,
    addApp: async (name) => {
      harness.apply(name);
      await harness.waitForVerdict(name);
      const app = harness.store.get("App", name);
      if (!app) throw new Error(`${name} is not in the store`);
      return app;
    },
    targets: [backends[0].target, backends[1].target],
    ask: async (app) => {
      const { status, body } = await harness.get(`${app}.localhost`);
      return backends.find(({ name }) => name === body)?.target ?? status;
    },
    restart: async () => {
      await harness.stopBerth();
      await harness.boot();
      await harness.waitUntilReady();
      return harness.ingress;
    },
    now: () => systemClock.now(),
    pass: (ms) => delay(systemClock, ms, new AbortController().signal),
    [Symbol.asyncDispose]: async () => {
      await harness[Symbol.asyncDispose]();
      for (const backend of backends) await backend[Symbol.asyncDispose]();
    },
  };
});
