import { delay, systemClock } from "../../src/base/clock.ts";
import { startBackend } from "../support/backend.ts";
import { CaddyHarness } from "../support/caddy-harness.ts";
import { type IngressHarness, ingressContract } from "./ingress-contract.ts";

ingressContract("Caddy as a process", async (): Promise<IngressHarness> => {
  const world = await CaddyHarness.open();
  const backends = [await startBackend("one"), await startBackend("two")] as const;
  await world.waitUntilReady();
  return {
    ingress: world.ingress,
    addApp: async (name) => {
      world.apply(name);
      await world.waitForVerdict(name);
      const app = world.store.get("App", name);
      if (!app) throw new Error(`${name} is not in the store`);
      return app;
    },
    targets: [backends[0].target, backends[1].target],
    ask: async (app) => {
      const { status, body } = await world.get(`${app}.localhost`);
      return backends.find(({ name }) => name === body)?.target ?? status;
    },
    restart: async () => {
      await world.stopBerth();
      await world.boot();
      await world.waitUntilReady();
      return world.ingress;
    },
    now: () => systemClock.now(),
    pass: (ms) => delay(systemClock, ms, new AbortController().signal),
    [Symbol.asyncDispose]: async () => {
      await world[Symbol.asyncDispose]();
      for (const backend of backends) await backend[Symbol.asyncDispose]();
    },
  };
});
