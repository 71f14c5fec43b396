import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { BerthError } from "../../../../src/base/errors.ts";
import { silentLogger } from "../../../../src/base/logger.ts";
import type { EngineLocation } from "../../../../src/controller/engine-host.ts";
import type { ContainerListenerSpec } from "../../../../src/controller/models/assistant/port.ts";
import {
  ContainerListenerReconciler,
  type ContainerListenerReconcilerOptions,
} from "../../../../src/controller/models/container-listener-reconciler.ts";
import { STACK_LABEL } from "../../../../src/resources/stack.ts";
import { applyResource, openTestStore, type TestStore } from "../../../support/test-store.ts";

/** The environment of the reconciler: a fake engine with one network, and a fake assistant. */
class Site {
  readonly sent: (readonly ContainerListenerSpec[])[] = [];
  readonly woken: string[] = [];
  network: readonly string[] | undefined;
  readonly stackNetworks = new Set<string>();
  nextSubnet = "172.18.0.0/16";
  gateway: string | undefined = "172.17.0.1";
  engineDown = false;
  location: EngineLocation = "this-machine";
  assistantError: BerthError | undefined;
  reach: "address" | "published" = "address";
  readonly store = testStore.store;

  listeners(
    options: Partial<ContainerListenerReconcilerOptions> = {},
  ): ContainerListenerReconciler {
    return new ContainerListenerReconciler({
      store: this.store,
      runtime: {
        location: this.location,
        ensureNetwork: async () => {
          this.#engine();
          this.network ??= [this.nextSubnet];
        },
        ensureStackNetwork: async (name) => {
          this.#engine();
          this.stackNetworks.add(name);
        },
        networkSubnets: async (name) =>
          this.#engine() ??
          (this.stackNetworks.has(name) ? [`subnet of ${name}`] : (this.network ?? [])),
        hostGateway: async () => this.#engine() ?? this.gateway,
        removeNetwork: async (name) => {
          if (!this.stackNetworks.delete(name)) this.network = undefined;
        },
      },
      assistant: {
        setContainerListeners: async (listeners) => {
          if (this.assistantError) throw this.assistantError;
          this.sent.push(listeners);
        },
      },
      findReachability: async () => this.reach,
      port: 7777,
      clock: testStore.clock,
      logger: silentLogger,
      onChanged: (app) => void this.woken.push(app),
      ...options,
    });
  }

  put(name: string, spec: { models?: string[]; running?: boolean }): void {
    applyResource(this.store, "App", name, { image: "web:1", ...spec });
  }

  delete(name: string): void {
    this.store.delete("App", name, { actor: { name: "test" }, manager: "api" });
  }

  #engine(): undefined {
    if (this.engineDown) throw new BerthError("engine_unreachable", "the engine does not answer");
  }
}

let testStore: TestStore;
let site: Site;
let open: ContainerListenerReconciler[];
beforeEach(() => {
  testStore = openTestStore();
  site = new Site();
  open = [];
});
afterEach(async () => {
  for (const listeners of open) await listeners[Symbol.asyncDispose]();
  await testStore[Symbol.asyncDispose]();
});

async function started(
  options: Partial<ContainerListenerReconcilerOptions> = {},
): Promise<ContainerListenerReconciler> {
  const listeners = site.listeners(options);
  open.push(listeners);
  listeners.start();
  await testStore.clock.advance(1_000);
  return listeners;
}

const listener = {
  address: "172.17.0.1",
  port: 7777,
  host: "models.berth.internal",
  subnets: ["172.18.0.0/16"],
};

describe("the container listener", () => {
  it("is closed while no App uses models, and creates nothing on the engine", async () => {
    site.put("web", {});
    const listeners = await started();
    expect(site.sent).toEqual([[]]);
    expect(listeners.getUnavailableReason()).toMatchObject({ reason: "ModelsOutOfReach" });
    expect(site.network).toBeUndefined();
    await testStore.clock.advance(600_000);
    expect(site.sent).toEqual([[]]);
  });

  it("is opened on the instance's network, and the App is notified", async () => {
    const listeners = await started();
    site.put("web", { models: ["chat"] });
    await testStore.clock.advance(1_000);
    expect(site.sent.at(-1)).toEqual([listener]);
    expect(listeners.getUnavailableReason()).toBeNull();
    expect(site.woken).toEqual(["web"]);
  });

  it("accepts clients from the networks of stacks that have an App with models, and creates these networks", async () => {
    const put = (name: string, stack: string, spec: object) =>
      applyResource(
        site.store,
        "App",
        name,
        { image: "web:1", ...spec },
        { labels: { [STACK_LABEL]: stack } },
      );
    put("blog-web", "blog", { models: ["chat"] });
    put("blog-worker", "blog", { models: ["chat"] });
    put("shop-web", "shop", {});
    await started();
    const network = `berth--${site.store.instanceId}-blog`;
    const subnets = [...listener.subnets, `subnet of ${network}`];
    expect(site.sent.at(-1)).toEqual([{ ...listener, subnets }]);
    expect([...site.stackNetworks]).toEqual([network]);
  });

  it("is closed after the last App with models is deleted", async () => {
    site.put("web", { models: ["chat"] });
    site.put("other", {});
    await started();
    site.put("web", {});
    await testStore.clock.advance(1_000);
    expect(site.sent.at(-1)).toEqual([]);
    site.put("web", { models: ["chat"] });
    await testStore.clock.advance(1_000);
    site.put("web", { models: ["chat"], running: false });
    await testStore.clock.advance(1_000);
    expect(site.sent.at(-1)).toEqual([]);
    site.put("web", { models: ["chat"] });
    await testStore.clock.advance(1_000);
    expect(site.sent.at(-1)).toEqual([listener]);
    site.delete("web");
    await testStore.clock.advance(1_000);
    expect(site.sent.at(-1)).toEqual([]);
  });

  it("is opened again when the network was created again with other addresses", async () => {
    site.put("web", { models: ["chat"] });
    const listeners = await started();
    site.network = ["172.19.0.0/16", "fd00::/64"];
    await testStore.clock.advance(31_000);
    expect(site.sent.at(-1)).toEqual([{ ...listener, subnets: ["172.19.0.0/16", "fd00::/64"] }]);
    site.network = ["172.20.0.0/16"];
    listeners.refresh();
    await testStore.clock.advance(300);
    expect(site.sent.at(-1)).toEqual([{ ...listener, subnets: ["172.20.0.0/16"] }]);
    expect(site.woken).toEqual(["web"]);
  });

  it("is requested again from a restarted assistant", async () => {
    site.put("web", { models: ["chat"] });
    const listeners = await started();
    const before = site.sent.length;
    listeners.refresh();
    await testStore.clock.advance(300);
    expect(site.sent.length).toBe(before + 1);
    await testStore.clock.advance(31_000);
    expect(site.sent.length).toBe(before + 2);
  });

  it("is on the loopback interface if the engine runs in a virtual machine", async () => {
    site.reach = "published";
    site.gateway = "172.17.0.1";
    site.put("web", { models: ["chat"] });
    await started();
    expect(site.sent.at(-1)).toEqual([
      { ...listener, address: "127.0.0.1", subnets: ["127.0.0.0/8"] },
    ]);
  });

  it("is unavailable when the engine runs on another machine", async () => {
    site.put("web", { models: ["chat"] });
    site.location = "remote";
    const listeners = await started();
    expect(listeners.getUnavailableReason()?.message).toMatch(
      /another machine; set OPENAI_BASE_URL/,
    );
    expect(site.sent).toEqual([]);
  });

  it("is available if Berth reaches the engine through a TCP port of this machine", async () => {
    site.put("web", { models: ["chat"] });
    site.location = "loopback";
    expect((await started()).getUnavailableReason()).toBeNull();
  });
});

describe("a failure of the container listener", () => {
  it("is reported until a retry succeeds", async () => {
    site.put("web", { models: ["chat"] });
    site.assistantError = new BerthError("engine_error", "port 7777 of 172.17.0.1 is taken", {
      hint: "stop it",
    });
    const listeners = await started();
    expect(listeners.getUnavailableReason()).toEqual({
      reason: "ModelsOutOfReach",
      message: "containers cannot reach the models: port 7777 of 172.17.0.1 is taken; stop it",
    });
    expect(site.woken).toEqual(["web"]);
    await testStore.clock.advance(10_000);
    expect(site.woken).toEqual(["web"]);
    site.assistantError = undefined;
    await testStore.clock.advance(3_000);
    expect(listeners.getUnavailableReason()).toBeNull();
    expect(site.woken).toEqual(["web", "web"]);
  });

  it("because of an unreachable engine ends when the engine is reachable again", async () => {
    site.engineDown = true;
    site.put("web", { models: ["chat"] });
    const listeners = await started();
    expect(listeners.getUnavailableReason()?.message).toContain("does not answer");
    site.engineDown = false;
    listeners.refresh();
    await testStore.clock.advance(300);
    expect(listeners.getUnavailableReason()).toBeNull();
  });

  it("is not reported without Apps that use models", async () => {
    site.assistantError = new BerthError("assistant_unreachable", "it is off");
    await started();
    await testStore.clock.advance(600_000);
    expect(site.woken).toEqual([]);
  });

  it("is reported if the engine has no default bridge", async () => {
    site.gateway = undefined;
    site.put("web", { models: ["chat"] });
    expect((await started()).getUnavailableReason()?.message).toContain("default bridge");
  });

  it("leaves no network if the last App is deleted in the meantime", async () => {
    const listeners = site.listeners({
      runtime: {
        location: site.location,
        ensureNetwork: async () => {
          site.network = ["172.18.0.0/16"];
          site.delete("web");
        },
        ensureStackNetwork: async () => {},
        networkSubnets: async () => site.network ?? [],
        hostGateway: async () => "172.17.0.1",
        removeNetwork: async () => {
          site.network = undefined;
        },
      },
    });
    open.push(listeners);
    site.put("web", { models: ["chat"] });
    listeners.start();
    await testStore.clock.advance(1_000);
    expect(site.network).toBeUndefined();
    expect(site.sent.at(-1)).toEqual([]);
  });
});

describe("the port of the container listener", () => {
  it("equals the port of the assistant's endpoint", async () => {
    expect(site.listeners({ port: 7790 }).port).toBe(7790);
  });

  it("stays the same after a restart, even if the assistant's endpoint gets another port at each start", async () => {
    const first = site.listeners({ port: 0 }).port;
    expect(first).toBeGreaterThan(1023);
    const store = await testStore.reopen();
    expect(site.listeners({ port: 0, store }).port).toBe(first);
  });
});
