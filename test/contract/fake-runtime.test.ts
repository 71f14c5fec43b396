import { systemClock } from "../../src/base/clock.ts";
import { BerthError } from "../../src/base/errors.ts";
import type { BuildImageOptions } from "../../src/controller/runtime/port.ts";
import type { FakeImageBuild } from "../support/fake-image-builder.ts";
import { FakeRuntime } from "../support/fake-runtime.ts";
import { type RuntimeHarness, runtimeContract } from "./runtime-contract.ts";

const command = ["sh", "-c", "echo out; exit 3"];
const auth = { server: "registry.test", username: "berth", password: "open sesame" };

function fakeBuild({ dockerfile, args, auths }: BuildImageOptions): FakeImageBuild {
  const steps = ["FROM web:1", "RUN make"];
  switch (dockerfile) {
    case "works":
      return { steps, lines: [`made for ${args["WHO"]}`], image: { exposedPorts: [8080] } };
    case "fails":
      return { steps, fails: { step: 2, exitCode: 7, lines: ["no such module"] } };
    case "unreadable":
      return { error: new BerthError("build_failed", "the Dockerfile cannot be read: line 2") };
    case "no-base":
      return { error: new BerthError("image_not_found", "there is no such image") };
    case "private-base": {
      const isKnown = auths.some(
        (item) => item.server === auth.server && item.password === auth.password,
      );
      return isKnown ? {} : { error: new BerthError("registry_denied", "the registry denied") };
    }
    default:
      return { steps, lines: ["waiting"], hangs: true };
  }
}

runtimeContract("the fake", async (): Promise<RuntimeHarness> => {
  const runtime = new FakeRuntime({
    clock: systemClock,
    images: {
      "web:1": {
        exposedPorts: [8080],
        listensOn: [8080],
        readyAfterMs: 20,
        logs: ["web starts"],
        exec: () => ({ exitCode: 3, output: "out\n" }),
      },
      "exits:1": {
        logs: ["starting", { stream: "stderr", message: "no configuration found" }],
        exits: { afterMs: 30, code: 3 },
      },
      "stubborn:1": { ignoresTerm: true },
      "broken:1": { startError: "unable to find user nobody-here" },
      "registry.test/open:1": { held: false, pullMs: 5, listensOn: [8080] },
      "registry.test/private:1": { held: false, auth },
    },
  });
  const { engine } = runtime;
  engine.builder.script = ({ options }) => fakeBuild(options);
  return {
    runtime,
    web: "web:1",
    exits: "exits:1",
    stubborn: "stubborn:1",
    broken: { spec: { image: "broken:1" }, says: "nobody-here" },
    missing: "missing:1",
    registry: {
      open: "registry.test/open:1",
      missing: "registry.test/missing:1",
      denied: "registry.test/private:1",
      auth,
    },
    command,
    builds: {
      context: async function* () {
        yield Buffer.from("a context");
      },
      dockerfiles: {
        works: "works",
        fails: "fails",
        unreadable: "unreadable",
        noBase: "no-base",
        privateBase: "private-base",
        waits: "waits",
      },
      auth,
      forgetPrivateBase: async () => {},
      tag: async (image, tag) => {
        const held = [...engine.localImages.values()].find((item) => item.id === image);
        if (held) engine.localImages.set(tag, held);
      },
    },
    hands: {
      kill: async (id) => runtime.kill(id),
      rename: async (id, name) => runtime.rename(id, name),
      disconnect: async (id, network) => runtime.disconnect(id, network),
      makeUnhealthy: async (id) => engine.makeUnhealthy(id),
      addStranger: async (name) => void runtime.addStranger(name),
      addForeignNetwork: async (name) => void engine.networks.set(name, {}),
      addForeignVolume: async (name) => void engine.volumes.set(name, {}),
      state: async (name) => {
        const container = engine.find(name);
        if (!container) return "absent";
        return container.state === "running" ? "running" : "other";
      },
      hasNetwork: async (name) => engine.networks.has(name),
      aliases: async (id, network) => engine.container(id).networks.get(network)?.aliases ?? [],
      hosts: async (id) =>
        new Map(
          (engine.container(id).spec.hostAliases ?? []).map((name) => [name, engine.hostAddress]),
        ),
      sweep: async (prefix) => {
        for (const container of engine.containers())
          if (container.name.startsWith(prefix)) engine.remove(container.id);
        for (const map of [engine.networks, engine.volumes])
          for (const name of map.keys()) if (name.startsWith(prefix)) map.delete(name);
      },
    },
    [Symbol.asyncDispose]: async () => {},
  };
});
