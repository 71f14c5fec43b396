import type Docker from "dockerode";
import { RootFs } from "../../scripts/base-image.mjs";
import { systemClock } from "../../src/base/clock.ts";
import { DockerRuntime } from "../../src/controller/runtime/docker-runtime.ts";
import { type RuntimeHarness, runtimeContract } from "../contract/runtime-contract.ts";
import { dockerClient, dockerHost, testLabels } from "../support/engine.ts";
import { EXITS, SHELL, STUBBORN, WEB } from "../support/images.ts";
import { REGISTRY_USER, startRegistry } from "../support/registry.ts";

runtimeContract("Docker", async (): Promise<RuntimeHarness> => {
  const docker = dockerClient();
  const runtime = new DockerRuntime({ host: dockerHost(), clock: systemClock });
  const open = await startRegistry();
  const closed = await startRegistry({ credentials: true });
  const openImage = await open.push(docker, WEB);
  const deniedImage = await closed.push(docker, WEB);
  return {
    runtime,
    web: WEB,
    exits: EXITS,
    stubborn: STUBBORN,
    broken: { spec: { user: "nobody-here" }, says: "nobody-here" },
    missing: "berth.test/missing:1",
    registry: {
      open: openImage,
      missing: `${open.address}/missing:1`,
      denied: deniedImage,
      auth: { server: closed.address, ...REGISTRY_USER },
    },
    command: ["sh", "-c", "echo out; exit 3"],
    builds: {
      ...dockerfiles({ missing: `${open.address}/missing:1`, denied: deniedImage }),
      auth: { server: closed.address, ...REGISTRY_USER },
      // Removes the base image, which the classic builder keeps under its tag, so that the next build pulls the image
      // again.
      forgetPrivateBase: async () =>
        void (await docker
          .getImage(deniedImage)
          .remove()
          .catch(() => {})),
      tag: async (image, tag) => {
        const colon = tag.lastIndexOf(":");
        await docker.getImage(image).tag({ repo: tag.slice(0, colon), tag: tag.slice(colon + 1) });
      },
    },
    hands: {
      kill: async (id) => void (await docker.getContainer(id).kill()),
      rename: async (id, name) => void (await docker.getContainer(id).rename({ name })),
      disconnect: async (id, network) =>
        void (await docker.getNetwork(network).disconnect({ Container: id, Force: false })),
      makeUnhealthy: async (id) => {
        await runtime.exec(id, ["rm", "/www/healthz"], 5_000, new AbortController().signal);
      },
      addStranger: async (name) => {
        const container = await docker.createContainer({
          name,
          Image: SHELL,
          Labels: testLabels(),
        });
        await container.start();
      },
      addForeignNetwork: async (name) =>
        void (await docker.createNetwork({ Name: name, Labels: testLabels() })),
      addForeignVolume: async (name) =>
        void (await docker.createVolume({ Name: name, Labels: testLabels() })),
      state: async (name) => {
        const found = await named(docker, name);
        if (!found) return "absent";
        return found.State === "running" ? "running" : "other";
      },
      hasNetwork: async (name) =>
        (await docker.listNetworks()).some((network) => network.Name === name),
      aliases: async (id, network) => {
        const { NetworkSettings } = await docker.getContainer(id).inspect();
        return NetworkSettings.Networks[network]?.Aliases ?? [];
      },
      hosts: async (id) => {
        const never = new AbortController().signal;
        const { output } = await runtime.exec(id, ["cat", "/etc/hosts"], 5_000, never);
        const lines = output.split("\n").map((line) => line.trim().split(/\s+/));
        return new Map(lines.flatMap(([address = "", ...names]) => names.map((n) => [n, address])));
      },
      sweep: (prefix) => sweepPrefix(docker, prefix),
    },
    [Symbol.asyncDispose]: async () => {
      await runtime[Symbol.asyncDispose]();
      await open[Symbol.asyncDispose]();
      await closed[Symbol.asyncDispose]();
    },
  };
});

/** Returns a build context with the Dockerfiles that the tests of the contract build. */
function dockerfiles(bases: { missing: string; denied: string }) {
  const from = `FROM ${WEB}`;
  const files = {
    works: [from, "ARG WHO=nobody", 'RUN echo "made for $WHO" | tee /made', "COPY hello.txt /"],
    fails: [from, "RUN echo begins", "RUN echo 'no such module' >&2; exit 7"],
    unreadable: [from, "BREW coffee"],
    noBase: [`FROM ${bases.missing}`, "RUN true"],
    privateBase: [`FROM ${bases.denied}`, "RUN true"],
    waits: [from, "RUN echo waiting; sleep 1000"],
  };
  const fs = new RootFs().file("hello.txt", "hello\n");
  for (const [name, lines] of Object.entries(files)) fs.file(name, `${lines.join("\n")}\n`);
  const tar = fs.tar();
  return {
    dockerfiles: {
      works: "works",
      fails: "fails",
      unreadable: "unreadable",
      noBase: "noBase",
      privateBase: "privateBase",
      waits: "waits",
    },
    context: async function* () {
      yield tar;
    },
  };
}

async function named(docker: Docker, name: string): Promise<Docker.ContainerInfo | undefined> {
  const all = await docker.listContainers({ all: true });
  return all.find((container) => container.Names.includes(`/${name}`));
}

async function sweepPrefix(docker: Docker, prefix: string): Promise<void> {
  const containers = await docker.listContainers({ all: true });
  const ours = containers.filter((it) => it.Names.some((name) => name.startsWith(`/${prefix}`)));
  await Promise.all(ours.map((it) => docker.getContainer(it.Id).remove({ force: true, v: true })));
  const networks = (await docker.listNetworks()).filter((it) => it.Name.startsWith(prefix));
  await Promise.all(networks.map((it) => docker.getNetwork(it.Id).remove()));
  const { Volumes: volumes } = await docker.listVolumes();
  const mine = (volumes ?? []).filter((it) => it.Name.startsWith(prefix));
  await Promise.all(mine.map((it) => docker.getVolume(it.Name).remove()));
}
