import { mkdtemp, rm } from "node:fs/promises";
import { createConnection } from "node:net";
import { networkInterfaces, tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { systemClock } from "../../src/base/clock.ts";
import { silentLogger } from "../../src/base/logger.ts";
import { buildDesiredApp } from "../../src/controller/apps/desired-app.ts";
import { networkName, stackNetworkName } from "../../src/controller/engine-names.ts";
import { findHostReachability } from "../../src/controller/ingress/host-reachability.ts";
import { INSTANCE } from "../../src/controller/labels.ts";
import { ContainerListenerReconciler } from "../../src/controller/models/container-listener-reconciler.ts";
import { DockerRuntime } from "../../src/controller/runtime/docker-runtime.ts";
import type { AppSpec } from "../../src/resources/app-spec.ts";
import { STACK_LABEL } from "../../src/resources/stack.ts";
import { openStore } from "../../src/store/sqlite-store.ts";
import type { Store } from "../../src/store/store.ts";
import { appResource } from "../support/app-resource.ts";
import { AssistantProcess } from "../support/assistant-process.ts";
import { dockerClient, dockerHost, testLabels } from "../support/engine.ts";
import { sweep, trackInstance } from "../support/engine-runs.ts";
import { freePorts } from "../support/free-port.ts";
import { NODE_WEB } from "../support/images.ts";

const never = new AbortController().signal;

/**
 * The program of a container: sends a question to the model that its environment variables name, and prints the answer.
 */
const ask = `
const { OPENAI_BASE_URL, OPENAI_API_KEY, OPENAI_MODEL } = process.env;
// The timer keeps the process alive, because Node 20's fetch sometimes loses a request whose connection is reset at
// once. The process would exit without an output.
const hold = setTimeout(() => {}, 60000);
fetch(OPENAI_BASE_URL + "/chat/completions", {
  method: "POST",
  headers: { "content-type": "application/json", authorization: "Bearer " + OPENAI_API_KEY },
  body: JSON.stringify({ model: OPENAI_MODEL, messages: [{ role: "user", content: "hi" }] }),
  signal: AbortSignal.timeout(5000),
})
  .then(async (answer) => console.log(answer.status, await answer.text()))
  .catch((error) => console.log("failed", error.cause?.code ?? error.name))
  .finally(() => clearTimeout(hold));
`;

let assistant: AssistantProcess;
let store: Store;
let doors: ContainerListenerReconciler;
let dataDir: string;
const runtime = new DockerRuntime({ host: dockerHost(), clock: systemClock });

beforeAll(async () => {
  assistant = await AssistantProcess.start(["--engine", "stub"]);
  dataDir = await mkdtemp(join(tmpdir(), "berth-door-"));
  store = openStore({ dataDir, clock: systemClock, durability: "off" });
  await trackInstance(store.instanceId);
  const [port = 0] = await freePorts(1);
  doors = new ContainerListenerReconciler({
    store,
    runtime,
    assistant: {
      setContainerListeners: async (list) =>
        void (await assistant.control("PUT", "/listeners", { listeners: list })),
    },
    findReachability: (signal) =>
      findHostReachability({ runtime, store, dockerHost: dockerHost(), signal }),
    port,
    clock: systemClock,
    logger: silentLogger,
    onChanged: () => {},
  });
  doors.start();
});

afterAll(async () => {
  await sweep(dockerClient(), `${INSTANCE}=${store.instanceId}`);
  await doors[Symbol.asyncDispose]();
  await runtime[Symbol.asyncDispose]();
  await store[Symbol.asyncDispose]();
  await assistant[Symbol.asyncDispose]();
  await rm(dataDir, { recursive: true });
});

const spec: AppSpec = {
  image: NODE_WEB,
  models: ["stub"],
  entrypoint: ["/bin/node", "-e", ask],
};

/** Adds an App with the field `models`, and waits until the listener that serves models to containers is open. */
async function open(): Promise<void> {
  store.apply({
    kind: "App",
    name: "asker",
    manager: "api",
    actor: { name: "test" },
    mode: "replace",
    spec,
  });
  await expect.poll(() => doors.getUnavailableReason()).toBeNull();
}

/**
 * Returns the output of the client program in a container on the given network, and on that of a stack if one is named.
 */
async function runClientOn(network: string, stackNetwork?: string): Promise<string> {
  const [container] = buildDesiredApp({
    instance: store.instanceId,
    resource: appResource("asker", spec),
    spec,
    image: { reference: NODE_WEB, id: null, digest: null },
    ingress: { mode: "off", reachability: "address" },
    revealSecret: () => "",
    loopbackPort: () => 0,
    modelsPort: doors.port,
  }).containers;
  if (!container) throw new Error("the App has no container");
  const id = await runtime.createContainer({ ...container, network, aliases: [] }, never);
  try {
    if (stackNetwork !== undefined)
      await runtime.connectNetwork(id, stackNetwork, { aliases: ["asker"] }, never);
    await runtime.startContainer(id, never);
    const lines: string[] = [];
    for await (const line of runtime.logs(id, { tail: 10, follow: true }, never))
      lines.push(line.message);
    return lines.join("\n");
  } finally {
    await runtime.removeContainer(id, never);
  }
}

/** Tries to connect from this machine to `address`, and returns the result. */
function tryConnect(address: string, port: number): Promise<"refused" | "closed" | "open"> {
  return new Promise((resolve) => {
    const socket = createConnection({ host: address, port });
    socket.once("connect", () => socket.write("GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"));
    socket.once("data", () => (resolve("open"), socket.destroy()));
    socket.once("error", (error: NodeJS.ErrnoException) =>
      resolve(error.code === "ECONNREFUSED" ? "refused" : "closed"),
    );
    socket.once("close", () => resolve("closed"));
  });
}

describe("a container of an App with models", () => {
  it("gets answers of the model as soon as the listener is open", async () => {
    expect(doors.getUnavailableReason()).not.toBeNull();
    await open();
    const answer = await runClientOn(networkName(store.instanceId));
    expect(answer).toMatch(/^200 /);
    expect(JSON.parse(answer.slice(4))).toMatchObject({
      object: "chat.completion",
      model: "stub",
      choices: [{ message: { role: "assistant" } }],
    });
  });

  it("gets answers if it is on the network of its stack too", async () => {
    await open();
    const network = stackNetworkName(store.instanceId, "shop");
    const apply = { kind: "App", name: "shop-asker", manager: "api" } as const;
    const labels = { [STACK_LABEL]: "shop" };
    store.apply({ ...apply, actor: { name: "test" }, mode: "replace", spec, labels });
    await expect
      .poll(() => runtime.listStackNetworks({ instance: store.instanceId }, never))
      .toMatchObject([{ name: network }]);
    await expect
      .poll(() => runClientOn(networkName(store.instanceId), network), { timeout: 60_000 })
      .toMatch(/^200 /);
    store.delete("App", "shop-asker", { actor: { name: "test" }, manager: "api" });
  });

  it("gets no answer on another network", async () => {
    await open();
    const network = `berth-elsewhere-${store.instanceId}`;
    await dockerClient().createNetwork({
      Name: network,
      Labels: { ...testLabels(), [INSTANCE]: store.instanceId },
    });
    expect(await runClientOn(network)).toMatch(/^failed (ECONNRESET|TimeoutError)/);
    expect(await runClientOn("bridge")).toMatch(/^failed (ECONNRESET|TimeoutError)/);
  });

  it("gets answers after the network was created again", async () => {
    await open();
    const network = networkName(store.instanceId);
    const before = await runtime.networkSubnets(network, never);
    await runtime.removeNetwork(network, never);
    // Another network takes the address range that is now free, so that Berth's network gets a new one.
    const blocker = await dockerClient().createNetwork({
      Name: `berth-blocker-${store.instanceId}`,
      Labels: { ...testLabels(), [INSTANCE]: store.instanceId },
      IPAM: { Config: before.map((Subnet) => ({ Subnet })) },
    });
    await runtime.ensureNetwork(network, { [INSTANCE]: store.instanceId }, never);
    expect(await runtime.networkSubnets(network, never)).not.toEqual(before);
    doors.refresh();
    await expect
      .poll(() => runClientOn(network), { timeout: 60_000, interval: 500 })
      .toMatch(/^200 /);
    await blocker.remove();
  });

  it("gets answers after the assistant was restarted", async () => {
    await open();
    await assistant.stop("SIGKILL");
    const network = networkName(store.instanceId);
    expect(await runClientOn(network)).toMatch(/^failed ECONNREFUSED/);
    await assistant.start();
    doors.refresh();
    await expect
      .poll(() => runClientOn(network), { timeout: 60_000, interval: 500 })
      .toMatch(/^200 /);
  });
});

describe("clients outside of containers", () => {
  it("reach no listener at other addresses of the machine", async () => {
    await open();
    const gateway = await runtime.hostGateway(networkName(store.instanceId), never);
    const own = Object.values(networkInterfaces())
      .flat()
      .flatMap((face) => (face?.family === "IPv4" ? [face.address] : []));
    expect(own.length).toBeGreaterThan(1);
    for (const address of new Set(["127.0.0.1", ...own]))
      expect([address, await tryConnect(address, doors.port)]).toEqual([
        address,
        address === gateway ? "closed" : "refused",
      ]);
  });

  it("are refused from this machine's own address on the bridge", async () => {
    await open();
    const gateway = await runtime.hostGateway(networkName(store.instanceId), never);
    expect(await tryConnect(gateway ?? "", doors.port)).toBe("closed");
  });

  it("find no open port after the last App with the field `models` is deleted", async () => {
    await open();
    const gateway = await runtime.hostGateway(networkName(store.instanceId), never);
    store.delete("App", "asker", { actor: { name: "test" }, manager: "api" });
    await expect.poll(() => tryConnect(gateway ?? "", doors.port)).toBe("refused");
  });
});
