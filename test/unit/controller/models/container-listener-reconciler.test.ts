import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { BerthError } from "../../../../src/base/errors.ts";
import { silentLogger } from "../../../../src/base/logger.ts";
import type { ContainerListenerSpec } from "../../../../src/controller/models/assistant/port.ts";
import {
  ContainerListenerReconciler,
  type ContainerListenerReconcilerOptions,
} from "../../../../src/controller/models/container-listener-reconciler.ts";
import { openTestStore, type TestStore } from "../../../support/test-store.ts";

/** An engine with one network, and an assistant, as far as doors are concerned. */
class Site {
  readonly told: (readonly ContainerListenerSpec[])[] = [];
  readonly woken: string[] = [];
  network: readonly string[] | undefined;
  nextSubnet = "172.18.0.0/16";
  gateway: string | undefined = "172.17.0.1";
  engineDown = false;
  assistantError: BerthError | undefined;
  reach: "address" | "published" = "address";
  readonly store = testStore.store;

  doors(options: Partial<ContainerListenerReconcilerOptions> = {}): ContainerListenerReconciler {
    return new ContainerListenerReconciler({
      store: this.store,
      runtime: {
        ensureNetwork: async () => {
          this.#engine();
          this.network ??= [this.nextSubnet];
        },
        networkSubnets: async () => this.#engine() ?? this.network ?? [],
        hostGateway: async () => this.#engine() ?? this.gateway,
        removeNetwork: async () => {
          this.network = undefined;
        },
      },
      assistant: {
        setContainerListeners: async (doors) => {
          if (this.assistantError) throw this.assistantError;
          this.told.push(doors);
        },
      },
      findReachability: async () => this.reach,
      dockerHost: "unix:///var/run/docker.sock",
      port: 7777,
      clock: testStore.clock,
      logger: silentLogger,
      onChanged: (app) => void this.woken.push(app),
      ...options,
    });
  }

  put(name: string, spec: { models?: string[]; running?: boolean }): void {
    this.store.apply({
      kind: "App",
      name,
      manager: "api",
      actor: { name: "test" },
      mode: "replace",
      spec: { image: "web:1", ...spec },
    });
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
  for (const doors of open) await doors[Symbol.asyncDispose]();
  await testStore[Symbol.asyncDispose]();
});

async function started(
  options: Partial<ContainerListenerReconcilerOptions> = {},
): Promise<ContainerListenerReconciler> {
  const doors = site.doors(options);
  open.push(doors);
  doors.start();
  await testStore.clock.advance(1_000);
  return doors;
}

const door = {
  address: "172.17.0.1",
  port: 7777,
  host: "models.berth.internal",
  subnets: ["172.18.0.0/16"],
};

describe("the way to the models", () => {
  it("is closed while no App uses models, and makes nothing on the engine", async () => {
    site.put("web", {});
    const doors = await started();
    expect(site.told).toEqual([[]]);
    expect(doors.getUnavailableReason()).toMatchObject({ reason: "ModelsOutOfReach" });
    expect(site.network).toBeUndefined();
    await testStore.clock.advance(600_000);
    expect(site.told).toEqual([[]]);
  });

  it("is opened for the network of the instance, and the App is told", async () => {
    const doors = await started();
    site.put("web", { models: ["chat"] });
    await testStore.clock.advance(1_000);
    expect(site.told.at(-1)).toEqual([door]);
    expect(doors.getUnavailableReason()).toBeNull();
    expect(site.woken).toEqual(["web"]);
  });

  it("is closed again with the last of them", async () => {
    site.put("web", { models: ["chat"] });
    site.put("other", {});
    await started();
    site.put("web", {});
    await testStore.clock.advance(1_000);
    expect(site.told.at(-1)).toEqual([]);
    site.put("web", { models: ["chat"] });
    await testStore.clock.advance(1_000);
    site.put("web", { models: ["chat"], running: false });
    await testStore.clock.advance(1_000);
    expect(site.told.at(-1)).toEqual([]);
    site.put("web", { models: ["chat"] });
    await testStore.clock.advance(1_000);
    expect(site.told.at(-1)).toEqual([door]);
    site.delete("web");
    await testStore.clock.advance(1_000);
    expect(site.told.at(-1)).toEqual([]);
  });

  it("follows a network that comes back with other addresses", async () => {
    site.put("web", { models: ["chat"] });
    const doors = await started();
    site.network = ["172.19.0.0/16", "fd00::/64"];
    await testStore.clock.advance(31_000);
    expect(site.told.at(-1)).toEqual([{ ...door, subnets: ["172.19.0.0/16", "fd00::/64"] }]);
    site.network = ["172.20.0.0/16"];
    doors.refresh();
    await testStore.clock.advance(300);
    expect(site.told.at(-1)).toEqual([{ ...door, subnets: ["172.20.0.0/16"] }]);
    expect(site.woken).toEqual(["web"]);
  });

  it("is told again to an assistant that has come up anew", async () => {
    site.put("web", { models: ["chat"] });
    const doors = await started();
    const before = site.told.length;
    doors.refresh();
    await testStore.clock.advance(300);
    expect(site.told.length).toBe(before + 1);
    await testStore.clock.advance(31_000);
    expect(site.told.length).toBe(before + 2);
  });

  it("is by loopback where the engine has a machine of its own", async () => {
    site.reach = "published";
    site.gateway = "172.17.0.1";
    site.put("web", { models: ["chat"] });
    await started();
    expect(site.told.at(-1)).toEqual([{ ...door, address: "127.0.0.1", subnets: ["127.0.0.0/8"] }]);
  });

  it.each(["tcp://10.1.2.3:2375", "https://docker.example.org:2376", "10.1.2.3"])(
    "is none for containers of another machine: %s",
    async (dockerHost) => {
      site.put("web", { models: ["chat"] });
      const doors = await started({ dockerHost });
      expect(doors.getUnavailableReason()?.message).toMatch(/another machine; set OPENAI_BASE_URL/);
      expect(site.told).toEqual([]);
    },
  );

  it.each([
    "/run/docker.sock",
    "",
    "tcp://127.0.0.1:2375",
    "tcp://localhost:2375",
    "tcp://[::1]:1",
  ])("is one for an engine at %j", async (dockerHost) => {
    site.put("web", { models: ["chat"] });
    expect((await started({ dockerHost })).getUnavailableReason()).toBeNull();
  });
});

describe("what goes wrong on the way", () => {
  it("is said, tried again, and over as soon as it can be", async () => {
    site.put("web", { models: ["chat"] });
    site.assistantError = new BerthError("engine_error", "port 7777 of 172.17.0.1 is taken", {
      hint: "stop it",
    });
    const doors = await started();
    expect(doors.getUnavailableReason()).toEqual({
      reason: "ModelsOutOfReach",
      message: "containers cannot reach the models: port 7777 of 172.17.0.1 is taken; stop it",
    });
    expect(site.woken).toEqual(["web"]);
    await testStore.clock.advance(10_000);
    expect(site.woken).toEqual(["web"]);
    site.assistantError = undefined;
    await testStore.clock.advance(3_000);
    expect(doors.getUnavailableReason()).toBeNull();
    expect(site.woken).toEqual(["web", "web"]);
  });

  it("with an engine that is away ends when it is back", async () => {
    site.engineDown = true;
    site.put("web", { models: ["chat"] });
    const doors = await started();
    expect(doors.getUnavailableReason()?.message).toContain("does not answer");
    site.engineDown = false;
    doors.refresh();
    await testStore.clock.advance(300);
    expect(doors.getUnavailableReason()).toBeNull();
  });

  it("is nobody's concern without Apps that use models", async () => {
    site.assistantError = new BerthError("assistant_unreachable", "it is off");
    await started();
    await testStore.clock.advance(600_000);
    expect(site.woken).toEqual([]);
  });

  it("without a default bridge is told", async () => {
    site.gateway = undefined;
    site.put("web", { models: ["chat"] });
    expect((await started()).getUnavailableReason()?.message).toContain("default bridge");
  });

  it("leaves no network behind when the last App goes meanwhile", async () => {
    const doors = site.doors({
      runtime: {
        ensureNetwork: async () => {
          site.network = ["172.18.0.0/16"];
          site.delete("web");
        },
        networkSubnets: async () => site.network ?? [],
        hostGateway: async () => "172.17.0.1",
        removeNetwork: async () => {
          site.network = undefined;
        },
      },
    });
    open.push(doors);
    site.put("web", { models: ["chat"] });
    doors.start();
    await testStore.clock.advance(1_000);
    expect(site.network).toBeUndefined();
    expect(site.told.at(-1)).toEqual([]);
  });
});

describe("the port", () => {
  it("is the endpoint's own", async () => {
    expect(site.doors({ port: 7790 }).port).toBe(7790);
  });

  it("is chosen once where the endpoint has another one at each start", async () => {
    const first = site.doors({ port: 0 }).port;
    expect(first).toBeGreaterThan(1023);
    const store = await testStore.reopen();
    expect(site.doors({ port: 0, store }).port).toBe(first);
  });
});
