import { readdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { importCompose } from "../../src/compose/import-compose.ts";
import { STACK } from "../../src/controller/labels.ts";
import type { AppSpec } from "../../src/resources/app-spec.ts";
import type { Manifest } from "../../src/resources/kinds.ts";
import { BerthProcess } from "../support/berth-process.ts";
import { readFolderFiles } from "../support/compose-reader.ts";
import { MEMBER, SHELL } from "../support/images.ts";
import { sampleOf } from "../support/sampling.ts";
import { visit } from "../support/traffic.ts";

/**
 * Stacks of several services on the real engine, imported from Compose files. Each service answers with its name only
 * after it has reached the services that it needs, under the names in its file, and has found its variables, files and
 * volumes. Two stacks, `shop` and `blog`, have services with the same names.
 */

const fixtures = join(import.meta.dirname, "../fixtures/stacks");
/** The stacks that tests of this file change or ask. */
const used = ["blog", "chat", "files", "shop", "wiki"];
const others = readdirSync(fixtures).filter((name) => !used.includes(name));
const stacks = [...used, ...sampleOf("stacks", others.toSorted(), 1)];

let berth: BerthProcess;
const imported = new Map<string, readonly Manifest<"App">[]>();

/** Runs a command in the container of an app; returns its exit code and the end of its output. */
async function run(app: string, script: string) {
  const container = await berth.container(app);
  const exec = await container.exec({
    Cmd: ["sh", "-c", script],
    AttachStdout: true,
    AttachStderr: true,
    Tty: true,
  });
  const stream = await exec.start({ Tty: true });
  let output = "";
  for await (const chunk of stream) output += String(chunk);
  const { ExitCode: code } = await exec.inspect();
  return { code, output: output.trim() };
}

const who = async (app: string, address: string) =>
  (await run(app, `wget -q -O - http://${address}/who`)).output;

const listNetworks = async (stack: string) =>
  (await berth.docker.listNetworks({ filters: { label: [`${STACK}=${stack}`] } })).filter(
    ({ Labels = {} }) => Labels["dev.berth.instance"] === berth.instance,
  );

const createApp = (name: string, spec: AppSpec): Manifest<"App"> => ({
  apiVersion: "berth.dev/v1",
  kind: "App",
  metadata: { name },
  spec,
});

const apply = (...manifests: Manifest<"App">[]) =>
  berth.client.apply({ manifests, manager: "cli" });

beforeAll(async () => {
  berth = await BerthProcess.open({ ingress: "process", onTestFailed: () => {} });
  for (const stack of stacks) {
    const folder = join(fixtures, stack);
    const file = readdirSync(folder).find((name) => /compose\.ya?ml$/.test(name)) ?? "";
    const result = importCompose(
      { files: [join(folder, file)], specFolder: folder },
      readFolderFiles(folder),
    );
    const manifests = result.apps.map(({ manifest }) => manifest);
    const bad = result.findings.find(({ level }) => level !== "note" && level !== "changed");
    if (bad) throw new Error(`${stack}/${file}: ${bad.message}`);
    imported.set(stack, manifests);
  }
  await apply(...[...imported.values()].flat());
});
afterAll(async () => {
  await berth?.[Symbol.asyncDispose]();
});

describe("several stacks on one engine", () => {
  it.for(stacks)(
    "the stack %s gets ready: each of its services reaches the others, and finds its variables, files and volumes",
    async (stack) => {
      for (const { metadata } of imported.get(stack) ?? [])
        await berth.waitForAppReady(metadata.name);
      const found = await berth.client.stacks.get(stack);
      expect(found.ready).toBe(found.apps);
      expect(found.apps).toBeGreaterThanOrEqual(2);
    },
  );

  it("have networks with subnets that do not overlap, and that only their own apps share", async () => {
    expect(used.length + others.length).toBeGreaterThanOrEqual(12);
    const networks = (await Promise.all(stacks.map(listNetworks))).flat();
    expect(networks).toHaveLength(stacks.length);
    const subnets = networks.map(({ IPAM }) => IPAM?.Config?.[0]?.Subnet);
    expect(new Set(subnets).size).toBe(stacks.length);
    for (const subnet of subnets) expect(subnet).toMatch(/^10\.213\.\d+\.\d+\/26$/);
  });

  it("show no drift after their apps were ready", async () => {
    const { events } = await berth.client.events.list({ limit: 1000 });
    expect(events.filter(({ reason }) => /Drift/.test(reason))).toEqual([]);
    for (const manifest of [...imported.values()].flat()) {
      const plan = await berth.client.apps.plan(manifest.metadata.name);
      expect(plan).toMatchObject({ app: manifest.metadata.name, operations: [] });
    }
  });
});

describe("a name in the network of a stack", () => {
  it("reaches the service of that stack, even if an app without a stack has the same name", async () => {
    const alone: AppSpec = {
      image: MEMBER,
      port: 5432,
      domain: "none",
      env: { PORT: 5432, IDENTITY: "alone" },
    };
    await apply(createApp("db", alone), createApp("guest", { image: SHELL }));
    await berth.waitForAppReady("db");
    await berth.waitForAppReady("guest");
    for (let round = 0; round < 5; round += 1) {
      expect(await who("shop-worker", "db:5432")).toBe("shop/db");
      expect(await who("blog-worker", "db:5432")).toBe("blog/db");
    }
    expect(await who("guest", "db:5432")).toBe("alone");
  });

  it("is unknown outside of that network, where only the full name of the app is known", async () => {
    expect((await run("guest", "nslookup cache")).code).not.toBe(0);
    expect(await who("guest", "shop-cache:6379")).toBe("shop/cache");
    expect(await who("blog-web", "shop-cache:6379")).toBe("shop/cache");
  });
});

describe("the restrictions of an app", () => {
  it("are in effect in its container", async () => {
    expect((await inside("hostname")).output).toBe("chat-node");
    expect((await inside("touch /etc/written")).output).toContain("Read-only file system");
    expect((await inside("stat -c %a /tmp && touch /tmp/written")).output).toBe("1777");
    expect((await inside("grep -E 'CapEff|NoNewPrivs' /proc/self/status")).output).toMatch(
      /CapEff:\s+0+\r?\nNoNewPrivs:\s+1/,
    );
    const sizes = (await inside("grep -E ' (/tmp|/dev/shm) ' /proc/mounts")).output;
    expect(sizes).toMatch(/ \/tmp tmpfs .*size=4096k/);
    expect(sizes).toMatch(/ \/dev\/shm tmpfs .*size=32768k/);
  });
});

describe("a stack", () => {
  it("is reached by the ingress at the domains of its apps", async () => {
    const at = { port: berth.ingressPort, path: "/who" };
    expect((await visit({ ...at, host: "shop-web.localhost" })).body).toBe("shop/web\n");
    expect((await visit({ ...at, host: "blog-web.localhost" })).body).toBe("blog/web\n");
    expect((await visit({ ...at, host: "files.example.test" })).body).toBe("files/server\n");
  });

  it("starts again with its data after it was stopped and a prune removed its network", async () => {
    const names = (imported.get("shop") ?? []).map(({ metadata }) => metadata.name);
    await berth.client.stacks.act("shop", "stop", { wait: true });
    await berth.docker.pruneNetworks({ filters: { label: [`${STACK}=shop`] } });
    expect(await listNetworks("shop")).toEqual([]);
    await berth.client.stacks.act("shop", "start");
    for (const name of names) await berth.waitForAppReady(name);
    expect(await listNetworks("shop")).toHaveLength(1);
    expect(await who("shop-worker", "db:5432")).toBe("shop/db");
    expect((await run("shop-db", "cat /var/lib/data/owner")).output).toBe("shop/db");
  });

  it("is corrected if a user disconnects a container from its network", async () => {
    const { name: network = "" } = { name: (await listNetworks("blog"))[0]?.Name };
    const { id } = await berth.container("blog-db");
    await berth.docker.getNetwork(network).disconnect({ Container: id });
    await berth.until("blog-db is connected again", async () => {
      const { Containers = {} } = await berth.docker.getNetwork(network).inspect();
      return id in Containers;
    });
    expect(await who("blog-worker", "db:5432")).toBe("blog/db");
  });

  it("is deleted as a whole with its network, and its volumes only if they are to be deleted", async () => {
    const volumes = async (stack: string) =>
      (await berth.docker.listVolumes()).Volumes.filter(({ Name }) =>
        Name.startsWith(`berth-${berth.instance}-${stack}-`),
      );
    await berth.client.stacks.delete("blog", { wait: true });
    expect(await listNetworks("blog")).toEqual([]);
    expect(await volumes("blog")).toHaveLength(1);
    await berth.client.stacks.delete("wiki", { wait: true, deleteVolumes: true });
    expect(await listNetworks("wiki")).toEqual([]);
    expect(await volumes("wiki")).toEqual([]);
    expect(await who("shop-worker", "db:5432")).toBe("shop/db");
  });
});

function inside(script: string) {
  return run("chat-chat", script);
}
