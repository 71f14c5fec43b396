import { isIP } from "node:net";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { delay, systemClock } from "../../src/base/clock.ts";
import { findDifferences } from "../../src/controller/container-differences.ts";
import { NO_RESTRICTIONS } from "../../src/controller/container-settings.ts";
import { APP, COMPONENT, INSTANCE, LEASE_PREFIX, STACK } from "../../src/controller/labels.ts";
import { findPairedAddress, findReservedAddress } from "../../src/controller/reserved-addresses.ts";
import type {
  ContainerRuntime,
  ContainerSpec,
  LogLine,
  ObservedContainer,
  PullProgress,
  RegistryAuth,
  RuntimeEvent,
} from "../../src/controller/runtime/port.ts";
import { randomInstance } from "../support/random-instance.ts";
import { type BuildHarness, buildContract } from "./build-contract.ts";

/** The runtime under test, images with known behaviour, and calls to the engine as other programs make them. */
export interface RuntimeHarness extends AsyncDisposable {
  readonly runtime: ContainerRuntime;
  /** An image that listens on 8080, answers GET /healthz with 200, and prints "web starts" to its log. */
  readonly web: string;
  /** An image that prints "starting" to stdout and "no configuration found" to stderr, then exits with 3. */
  readonly exits: string;
  /** An image whose containers exit only on SIGKILL. */
  readonly stubborn: string;
  /** A command that makes the start of a container fail, and a part of the engine's message. */
  readonly broken: { readonly spec: Partial<ContainerSpec>; readonly says: string };
  /** An image that is neither in a registry nor on the engine. */
  readonly missing: string;
  readonly registry: {
    readonly open: string;
    readonly missing: string;
    readonly denied: string;
    readonly auth: RegistryAuth;
  };
  /** A command that prints "out" and exits with 3. */
  readonly command: readonly string[];
  /** The Dockerfiles that the tests build, each named after the result of its build, such as `works` and `fails`. */
  readonly builds: BuildHarness;
  readonly hands: {
    kill(id: string): Promise<void>;
    rename(id: string, name: string): Promise<void>;
    disconnect(id: string, network: string): Promise<void>;
    makeUnhealthy(id: string): Promise<void>;
    /** Starts a container that does not belong to Berth. */
    addStranger(name: string): Promise<void>;
    addForeignNetwork(name: string): Promise<void>;
    addForeignVolume(name: string): Promise<void>;
    state(name: string): Promise<"running" | "other" | "absent">;
    hasNetwork(name: string): Promise<boolean>;
    /** Returns the names under which other containers of this network find the container. */
    aliases(id: string, network: string): Promise<readonly string[]>;
    /** Returns the host names in the hosts file of the container, with their addresses. */
    hosts(id: string): Promise<ReadonlyMap<string, string>>;
    /** Removes every container, network and volume whose name begins with `prefix`. */
    sweep(prefix: string): Promise<void>;
  };
}

const WAIT_LIMIT_MS = 20_000;

/** Checks, for any adapter of the ContainerRuntime port, the behaviour that reconcilers rely on. */
export function runtimeContract(adapter: string, open: () => Promise<RuntimeHarness>): void {
  describe(`the container runtime port on ${adapter}`, () => {
    const signal = new AbortController().signal;
    const prefix = `contract-${randomInstance()}`;
    let harness: RuntimeHarness;
    let runtime: ContainerRuntime;
    let instance: string;
    let network: string;
    let count = 0;

    beforeAll(async () => {
      harness = await open();
      ({ runtime } = harness);
    });
    afterEach(async () => {
      await harness.hands.sweep(prefix);
    });
    afterAll(async () => {
      await harness[Symbol.asyncDispose]();
    });

    /**
     * Creates an instance id and a network that only this test uses, so that leftovers of other tests do not affect it.
     */
    async function begin(): Promise<void> {
      count += 1;
      instance = randomInstance();
      network = `${prefix}-net-${count}`;
      await runtime.ensureNetwork(network, { [INSTANCE]: instance }, signal);
    }

    function spec(name: string, changes: Partial<ContainerSpec> = {}): ContainerSpec {
      return {
        name: `${prefix}-${name}`,
        image: harness.web,
        labels: { [INSTANCE]: instance, [APP]: name },
        env: ["GREETING=hi", "LOG=web starts"],
        network,
        aliases: [name],
        mounts: [],
        publish: [],
        stopGraceMs: 2_000,
        ...changes,
      };
    }

    async function run(name: string, changes: Partial<ContainerSpec> = {}): Promise<string> {
      const id = await runtime.createContainer(spec(name, changes), signal);
      await runtime.startContainer(id, signal);
      return id;
    }

    async function observed(id: string): Promise<ObservedContainer> {
      const all = await runtime.listContainers({ instance }, signal);
      const found = all.find((item) => item.id === id);
      if (!found) throw new Error(`the container ${id} is not listed`);
      return found;
    }

    /** Returns the reserved address with this number in the network of the test. */
    async function addressOf(index: number): Promise<string> {
      const range = await runtime.reservedRange(network, signal);
      const address = findReservedAddress(range ?? "", index);
      if (address === undefined) throw new Error(`the network has no reserved address ${index}`);
      return address;
    }

    async function until<T>(what: string, check: () => Promise<T | undefined>): Promise<T> {
      const deadline = Date.now() + WAIT_LIMIT_MS;
      for (;;) {
        const value = await check();
        if (value !== undefined) return value;
        if (Date.now() > deadline) throw new Error(`waited too long until ${what}`);
        await delay(systemClock, 20, signal);
      }
    }

    async function read(id: string, tail: number, sinceMs?: number): Promise<LogLine[]> {
      const options = { tail, follow: false, ...(sinceMs === undefined ? {} : { sinceMs }) };
      const lines: LogLine[] = [];
      for await (const line of runtime.logs(id, options, signal)) lines.push(line);
      return lines;
    }

    const ended = (id: string) =>
      until("the container has ended", async () => {
        const container = await observed(id);
        return container.state === "exited" ? container : undefined;
      });

    const healthy = (id: string) =>
      until("the container is healthy", async () => {
        const target = { type: "http", port: 8080, path: "/healthz" } as const;
        const result = await runtime.probe(id, target, 1_000, signal);
        return result.healthy ? result : undefined;
      });

    const leaseLabels = (holder: string) => ({
      [INSTANCE]: instance,
      [COMPONENT]: "lease",
      [`${LEASE_PREFIX}holder`]: holder,
    });
    const listHolders = async () =>
      (await runtime.listLeases(instance, signal))
        .map((lease) => `${lease.term} ${lease.labels[`${LEASE_PREFIX}holder`]}`)
        .toSorted();

    it("the runtime returns the version and the capacity of the engine", async () => {
      const info = await runtime.info(signal);
      expect(info.version).not.toBe("");
      expect(info.apiVersion).toMatch(/^\d+\.\d+$/);
      expect(info.cpus).toBeGreaterThan(0);
      expect(info.memoryBytes).toBeGreaterThan(0);
    });

    it("the runtime answers a ping", async () => {
      await expect(runtime.ping(signal)).resolves.toBeUndefined();
    });

    describe("the engine lease", () => {
      it("has one record per term, which keeps the labels of the process that creates it first; records are listed for one instance only", async () => {
        await begin();
        expect(await listHolders()).toEqual([]);
        await runtime.createLease(instance, 9, leaseLabels("one"), signal);
        await runtime.createLease(instance, 9, leaseLabels("two"), signal);
        await runtime.createLease(instance, 10, leaseLabels("two"), signal);
        const other = randomInstance();
        await runtime.createLease(other, 1, { ...leaseLabels("x"), [INSTANCE]: other }, signal);
        expect(await listHolders()).toEqual(["10 two", "9 one"]);
        await runtime.removeLease(instance, 9, signal);
        await runtime.removeLease(instance, 9, signal);
        expect(await listHolders()).toEqual(["10 two"]);
        await runtime.removeLease(instance, 10, signal);
        await runtime.removeLease(other, 1, signal);
      });

      it("belongs to exactly one process if several create the record of its next term at the same time", async () => {
        await begin();
        const names = ["a", "b", "c", "d", "e", "f", "g", "h"];
        await Promise.allSettled(
          names.map((name) => runtime.createLease(instance, 1, leaseLabels(name), signal)),
        );
        expect(await listHolders()).toEqual([expect.stringMatching(/^1 [a-h]$/)]);
        await runtime.removeLease(instance, 1, signal);
      });
    });

    describe("the runtime, for containers,", () => {
      it("creates a container that is listed as requested, but not started", async () => {
        await begin();
        const id = await runtime.createContainer(
          spec("one", { memoryBytes: 64 * 2 ** 20, nanoCpus: 5e8 }),
          signal,
        );
        const container = await observed(id);
        expect(container).toMatchObject({
          id,
          name: `${prefix}-one`,
          image: harness.web,
          state: "created",
          exitCode: null,
          oomKilled: false,
          isPortTaken: false,
          error: null,
          startedAt: null,
          finishedAt: null,
          networks: [network],
          memoryBytes: 64 * 2 ** 20,
          nanoCpus: 5e8,
          addresses: [],
        });
        expect(container.labels).toMatchObject({ [INSTANCE]: instance, [APP]: "one" });
        const image = await runtime.inspectImage(harness.web, signal);
        expect(container.imageId).toBe(image?.id);
        expect(new Date(container.createdAt).toISOString()).toBe(container.createdAt);
      });

      it("lists a container with exactly the settings of its spec, whatever the image adds", async () => {
        await begin();
        const plain = spec("plain");
        const volume = `${prefix}-volume-${count}`;
        await runtime.ensureVolume(volume, { [INSTANCE]: instance }, signal);
        const image = await runtime.inspectImage(harness.web, signal);
        const whole = spec("whole", {
          imageId: image?.id ?? "",
          entrypoint: ["/bin/sh"],
          command: ["-c", "exec /bin/web"],
          user: "0:0",
          workingDir: "/tmp/",
          hostAliases: ["models.test"],
          mounts: [
            { type: "volume", volume, path: "/data/", readOnly: true },
            { type: "bind", hostPath: "/usr/share/", path: "/share", readOnly: true },
          ],
          publish: [
            { containerPort: 8080, protocol: "tcp", hostAddress: "127.0.0.1", hostPort: 0 },
            { containerPort: 53, protocol: "udp", hostAddress: "", hostPort: 0 },
          ],
          memoryBytes: 64 * 2 ** 20,
          nanoCpus: 5e8,
        });
        const empty = spec("empty", { entrypoint: [], command: [], workingDir: "/" });
        const reset = spec("reset", { entrypoint: [""], command: ["/bin/web"] });
        const restricted = spec("restricted", {
          hostname: "inside",
          shmBytes: 32 * 2 ** 20,
          restrictions: {
            readOnlyRoot: true,
            dropCapabilities: ["ALL"],
            noNewPrivileges: true,
            tmpfs: [
              { path: "/tmp/", sizeBytes: 2 ** 20 },
              { path: "/www", sizeBytes: undefined },
            ],
          },
        });
        const partly = spec("partly", {
          restrictions: { ...NO_RESTRICTIONS, dropCapabilities: ["NET_RAW", "CHOWN"] },
        });
        for (const wanted of [plain, whole, empty, reset, restricted, partly]) {
          const id = await runtime.createContainer(wanted, signal);
          expect(findDifferences(await observed(id), wanted)).toEqual([]);
          await runtime.startContainer(id, signal);
          expect(findDifferences(await observed(id), wanted)).toEqual([]);
          await runtime.stopContainer(id, 1_000, signal);
          expect(findDifferences(await observed(id), wanted)).toEqual([]);
          await runtime.removeContainer(id, signal);
        }
        await runtime.removeVolume(volume, signal);
      });

      it("lists a container's settings, so that a caller can find every difference from another spec", async () => {
        await begin();
        const wanted = spec("differs");
        const other = {
          command: ["/bin/sh", "-c", "true"],
          env: ["GREETING=bye", "LOG=web starts", "ADDED=1"],
          user: "1",
          workingDir: "/tmp",
          aliases: ["differs", "db"],
          hostAliases: ["models.test"],
          mounts: [{ type: "bind", hostPath: "/usr/share", path: "/share", readOnly: true }],
          publish: [
            { containerPort: 8080, protocol: "tcp", hostAddress: "127.0.0.1", hostPort: 0 },
          ],
          restrictions: {
            readOnlyRoot: true,
            dropCapabilities: ["NET_RAW"],
            noNewPrivileges: true,
            tmpfs: [{ path: "/tmp", sizeBytes: undefined }],
          },
        } as const;
        const id = await runtime.createContainer({ ...wanted, ...other }, signal);
        expect(findDifferences(await observed(id), wanted)).toEqual([
          "command",
          "user",
          "workingDir",
          "env ADDED",
          "env GREETING",
          "hostAliases",
          "volumes",
          "readOnlyRoot",
          "noNewPrivileges",
          "dropCapabilities",
          "tmpfs",
          "ports",
          "aliases",
        ]);
        const named = { ...wanted, ...other, hostname: "inside", shmBytes: 32 * 2 ** 20 };
        expect(findDifferences(await observed(id), named)).toEqual(["hostname", "shmSize"]);
        const pinned = { ...wanted, imageId: `sha256:${"0".repeat(64)}`, network: "elsewhere" };
        expect(findDifferences(await observed(id), pinned)).toEqual(
          expect.arrayContaining(["image", "networks"]),
        );
      });

      it("returns the same container when it is created again", async () => {
        await begin();
        const first = await runtime.createContainer(spec("twice"), signal);
        expect(await runtime.createContainer(spec("twice"), signal)).toBe(first);
        expect(await runtime.listContainers({ instance }, signal)).toHaveLength(1);
      });

      it("refuses a name that another container has, and does not change that container", async () => {
        await begin();
        await harness.hands.addStranger(`${prefix}-taken`);
        await expect(runtime.createContainer(spec("taken"), signal)).rejects.toMatchObject({
          code: "name_clash",
        });
        expect(await harness.hands.state(`${prefix}-taken`)).toBe("running");

        await runtime.createContainer(spec("ours"), signal);
        const other = { labels: { [INSTANCE]: instance, [APP]: "ours", version: "2" } };
        await expect(runtime.createContainer(spec("ours", other), signal)).rejects.toMatchObject({
          code: "name_clash",
        });
      });

      it("throws if the image is missing", async () => {
        await begin();
        await expect(
          runtime.createContainer(spec("no-image", { image: harness.missing }), signal),
        ).rejects.toMatchObject({ code: "image_not_found" });
        expect(await runtime.listContainers({ instance }, signal)).toEqual([]);
      });

      it("lists containers by instance and by app, and never containers of other programs", async () => {
        await begin();
        await harness.hands.addStranger(`${prefix}-stranger`);
        const first = await runtime.createContainer(spec("first"), signal);
        const second = await runtime.createContainer(spec("second"), signal);
        const ids = async (app?: string) =>
          (await runtime.listContainers(app ? { instance, app } : { instance }, signal))
            .map((item) => item.id)
            .toSorted();
        expect(await ids()).toEqual([first, second].toSorted());
        expect(await ids("first")).toEqual([first]);
        expect(await runtime.listContainers({ instance: "00000000" }, signal)).toEqual([]);
      });

      it("starts a container, has no effect if it already runs, and lists it as running", async () => {
        await begin();
        const id = await run("runs");
        await runtime.startContainer(id, signal);
        const container = await observed(id);
        expect(container).toMatchObject({ state: "running", exitCode: null, finishedAt: null });
        expect(container.startedAt).not.toBeNull();
      });

      it("throws NotFoundError for a missing container", async () => {
        await expect(runtime.startContainer("f".repeat(64), signal)).rejects.toMatchObject({
          code: "not_found",
        });
      });

      it("throws the reason of a failed start, and lists the container with that reason", async () => {
        await begin();
        const id = await runtime.createContainer(spec("broken", harness.broken.spec), signal);
        await expect(runtime.startContainer(id, signal)).rejects.toMatchObject({
          code: "engine_error",
          message: expect.stringContaining(harness.broken.says),
        });
        expect((await observed(id)).error).toContain(harness.broken.says);
      });

      it("publishes ports, and throws if a port is taken", async () => {
        await begin();
        const any = { containerPort: 8080, protocol: "tcp", hostAddress: "127.0.0.1" } as const;
        const first = await run("publishes", { publish: [{ ...any, hostPort: 0 }] });
        const { addresses } = await observed(first);
        expect(addresses).toEqual([
          { containerPort: 8080, address: expect.stringMatching(/^127\.0\.0\.1:\d+$/) },
        ]);
        const hostPort = Number(addresses[0]?.address.split(":")[1]);
        await expect(
          run("wants-it-too", { publish: [{ ...any, hostPort }] }),
        ).rejects.toMatchObject({ code: "port_taken" });
      });

      it("lets the engine choose a free port for port 0", async () => {
        await begin();
        const any = { containerPort: 8080, protocol: "tcp", hostAddress: "127.0.0.1" } as const;
        const publish = [{ ...any, hostPort: 0 }];
        const ids = [await run("any-port-1", { publish }), await run("any-port-2", { publish })];
        const found = await Promise.all(ids.map(observed));
        const ports = found.map(({ addresses }) => Number(addresses[0]?.address.split(":")[1]));
        for (const port of ports) expect(port).toBeGreaterThan(0);
        expect(new Set(ports).size).toBe(2);
        expect(found.map((container) => container.state)).toEqual(["running", "running"]);
        for (const id of ids) await runtime.stopContainer(id, 2_000, signal);
        expect((await observed(ids[0] ?? "")).addresses).toEqual([]);
      });

      it("has an address on each of its networks while it runs, and none before and after", async () => {
        await begin();
        const other = `${prefix}-net-other-${count}`;
        await runtime.ensureNetwork(other, { [INSTANCE]: instance }, signal);
        const id = await runtime.createContainer(spec("addressed"), signal);
        expect((await observed(id)).networkAddresses).toEqual({});
        await runtime.connectNetwork(id, other, { aliases: ["addressed"] }, signal);
        await runtime.startContainer(id, signal);
        const { networkAddresses } = await observed(id);
        expect(Object.keys(networkAddresses).toSorted()).toEqual([network, other].toSorted());
        for (const address of Object.values(networkAddresses))
          expect(isIP(address)).toBeGreaterThan(0);
        await runtime.stopContainer(id, 2_000, signal);
        expect((await observed(id)).networkAddresses).toEqual({});
      });

      it("lists an exited container with its exit code", async () => {
        await begin();
        const id = await run("exits", { image: harness.exits });
        const container = await ended(id);
        expect(container.exitCode).toBe(3);
        expect(container.finishedAt).not.toBeNull();
      });

      it("starts an exited container again", async () => {
        await begin();
        const id = await run("again");
        await harness.hands.kill(id);
        expect((await ended(id)).exitCode).toBe(137);
        await runtime.startContainer(id, signal);
        expect(await observed(id)).toMatchObject({ state: "running", exitCode: null });
      });

      it("stops a container with SIGTERM, and has no effect on a stopped or missing one", async () => {
        await begin();
        const id = await run("stops");
        await healthy(id);
        await runtime.stopContainer(id, 10_000, signal);
        const container = await observed(id);
        expect(container.state).toBe("exited");
        expect(container.exitCode).not.toBe(137);
        await runtime.stopContainer(id, 10_000, signal);
        await runtime.stopContainer("f".repeat(64), 10_000, signal);
      });

      it("kills a container that does not stop within the grace period", async () => {
        await begin();
        const id = await run("stubborn", { image: harness.stubborn });
        await runtime.stopContainer(id, 1_000, signal);
        expect(await observed(id)).toMatchObject({ state: "exited", exitCode: 137 });
      });

      it("removes a running container, and has no effect on a missing one", async () => {
        await begin();
        const id = await run("goes");
        await runtime.removeContainer(id, signal);
        expect(await runtime.listContainers({ instance }, signal)).toEqual([]);
        await runtime.removeContainer(id, signal);
      });

      it("handles two concurrent removals of a container", async () => {
        await begin();
        const id = await run("goes-twice");
        await Promise.all([
          runtime.removeContainer(id, signal),
          runtime.removeContainer(id, signal),
        ]);
        expect(await runtime.listContainers({ instance }, signal)).toEqual([]);
      });

      it("renames a container", async () => {
        await begin();
        const id = await run("named");
        await harness.hands.rename(id, `${prefix}-renamed`);
        expect((await observed(id)).name).toBe(`${prefix}-renamed`);
        await runtime.renameContainer(id, `${prefix}-named`, signal);
        await runtime.renameContainer(id, `${prefix}-named`, signal);
        expect((await observed(id)).name).toBe(`${prefix}-named`);
      });

      it("refuses to give a container the name of another container", async () => {
        await begin();
        const id = await run("nameless");
        await harness.hands.addStranger(`${prefix}-wanted`);
        await expect(runtime.renameContainer(id, `${prefix}-wanted`, signal)).rejects.toMatchObject(
          { code: "name_clash" },
        );
        await expect(
          runtime.renameContainer("f".repeat(64), `${prefix}-free`, signal),
        ).rejects.toMatchObject({ code: "not_found" });
      });
    });

    describe("the runtime, for networks and volumes,", () => {
      it("creates a network once, and refuses one that is not Berth's", async () => {
        await begin();
        await runtime.ensureNetwork(network, { [INSTANCE]: instance }, signal);
        await harness.hands.addForeignNetwork(`${prefix}-foreign-net`);
        await expect(
          runtime.ensureNetwork(`${prefix}-foreign-net`, { [INSTANCE]: instance }, signal),
        ).rejects.toMatchObject({ code: "name_clash" });
      });

      it("creates a network once for concurrent calls", async () => {
        await begin();
        const name = `${prefix}-net-many-${count}`;
        const labels = { [INSTANCE]: instance };
        await Promise.all([1, 2, 3, 4].map(() => runtime.ensureNetwork(name, labels, signal)));
        await runtime.removeNetwork(name, signal);
        expect(await harness.hands.hasNetwork(name)).toBe(false);
      });

      it("creates the network of a stack once, lists it, and refuses one that is not Berth's", async () => {
        await begin();
        const name = `${prefix}-stack-${count}`;
        const labels = { [INSTANCE]: instance, [STACK]: "blog" };
        const ensure = (wanted: string) =>
          runtime.ensureStackNetwork(wanted, labels, "10.214.0.0/16", signal);
        await Promise.all([ensure(name), ensure(name), ensure(`${name}-2`)]);
        await runtime.ensureNetwork(network, { [INSTANCE]: instance }, signal);
        const listed = await runtime.listStackNetworks({ instance }, signal);
        expect(listed.map((item) => item.name).toSorted()).toEqual([name, `${name}-2`]);
        expect(listed[0]?.labels).toMatchObject(labels);
        const subnets = await Promise.all(
          listed.map((item) => runtime.networkSubnets(item.name, signal)),
        );
        expect(new Set(subnets.flat()).size).toBe(subnets.flat().length);
        for (const subnet of subnets.flat()) expect(subnet).toMatch(/^10\.214\.\d+\.\d+\/26$/);
        await harness.hands.addForeignNetwork(`${prefix}-foreign-stack`);
        await expect(ensure(`${prefix}-foreign-stack`)).rejects.toMatchObject({
          code: "name_clash",
        });
      });

      it("connects a new container to a further network before its first start", async () => {
        await begin();
        const name = `${prefix}-stack-${count}`;
        const labels = { [INSTANCE]: instance, [STACK]: "blog" };
        await runtime.ensureStackNetwork(name, labels, "10.214.0.0/16", signal);
        await runtime.ensureNetwork(network, { [INSTANCE]: instance }, signal);
        const furtherNetworks = [{ network: name, aliases: ["db", "postgres_1"] }];
        const wanted = spec("member", { furtherNetworks });
        const id = await runtime.createContainer(wanted, signal);
        for (const further of furtherNetworks)
          await runtime.connectNetwork(id, further.network, { aliases: further.aliases }, signal);
        await runtime.startContainer(id, signal);
        const container = await observed(id);
        expect(container.networks.toSorted()).toEqual([network, name].toSorted());
        expect(findDifferences(container, wanted)).toEqual([]);
        expect(await harness.hands.aliases(id, name)).toEqual(
          expect.arrayContaining(["db", "postgres_1"]),
        );
      });

      it("connects a container to a network again, and has no effect the second time", async () => {
        await begin();
        const id = await run("joins");
        await harness.hands.disconnect(id, network);
        expect((await observed(id)).networks).toEqual([]);
        await runtime.connectNetwork(id, network, { aliases: ["joins"] }, signal);
        await runtime.connectNetwork(id, network, { aliases: ["joins"] }, signal);
        expect((await observed(id)).networks).toEqual([network]);
      });

      it("throws if the container or the network is missing", async () => {
        await begin();
        await expect(
          runtime.connectNetwork("f".repeat(64), network, { aliases: ["x"] }, signal),
        ).rejects.toMatchObject({ code: "not_found" });
        const id = await run("joins-nothing");
        await expect(
          runtime.connectNetwork(id, `${prefix}-no-net`, { aliases: ["x"] }, signal),
        ).rejects.toMatchObject({ code: "engine_error" });
      });

      it("refuses to start a container whose network is missing, and starts it on a new network of that name", async () => {
        await begin();
        const id = await run("orphan", { aliases: ["orphan", "other-name"] });
        await runtime.stopContainer(id, 2_000, signal);
        await runtime.removeNetwork(network, signal);
        await expect(runtime.startContainer(id, signal)).rejects.toMatchObject({
          code: "engine_error",
          message: expect.stringContaining("not found"),
        });
        await runtime.ensureNetwork(network, { [INSTANCE]: instance }, signal);
        await runtime.startContainer(id, signal);
        const container = await observed(id);
        expect(container).toMatchObject({ state: "running", networks: [network], error: null });
        expect(isIP(container.networkAddresses[network] ?? "")).toBeGreaterThan(0);
        expect(await harness.hands.aliases(id, network)).toEqual(
          expect.arrayContaining(["orphan", "other-name"]),
        );
      });

      it("gives a container its reserved address at each start", async () => {
        await begin();
        const id = await runtime.createContainer(spec("kept", { reservedAddress: 6 }), signal);
        const wanted = await addressOf(6);
        expect(await observed(id)).toMatchObject({ reservedAddress: wanted, networkAddresses: {} });
        for (const _ of [1, 2]) {
          await runtime.startContainer(id, signal);
          expect(await observed(id)).toMatchObject({
            reservedAddress: wanted,
            networkAddresses: { [network]: wanted },
          });
          await healthy(id);
          await runtime.stopContainer(id, 2_000, signal);
        }
        expect((await observed(id)).reservedAddress).toBe(wanted);
      });

      it("gives no reserved address to a container that asks for none, or for one that does not exist", async () => {
        await begin();
        const range = await runtime.reservedRange(network, signal);
        for (const [name, changes] of [
          ["any", {}],
          ["too-far", { reservedAddress: 2 ** 24 }],
        ] as const) {
          const { reservedAddress, networkAddresses } = await observed(await run(name, changes));
          expect(reservedAddress).toBeNull();
          expect(isIP(networkAddresses[network] ?? "")).toBe(4);
          expect(findPairedAddress(range ?? "", networkAddresses[network] ?? "")).toBeUndefined();
        }
      });

      it("starts a container at another address if another container already has its reserved address", async () => {
        await begin();
        await run("first", { reservedAddress: 2 });
        const changes = { reservedAddress: 2, aliases: ["second", "other-name"] };
        const id = await run("second", changes);
        const wanted = await addressOf(2);
        const container = await observed(id);
        expect(findDifferences(container, spec("second", changes))).toEqual([]);
        const { state, isPortTaken, reservedAddress, networkAddresses } = container;
        expect({ state, isPortTaken }).toEqual({ state: "running", isPortTaken: false });
        expect(reservedAddress).toBeNull();
        expect(isIP(networkAddresses[network] ?? "")).toBe(4);
        expect(networkAddresses[network]).not.toBe(wanted);
        expect(await harness.hands.aliases(id, network)).toEqual(
          expect.arrayContaining(["second", "other-name"]),
        );
      });

      it("lets a container have the reserved address of a removed one at once", async () => {
        await begin();
        await runtime.removeContainer(await run("first", { reservedAddress: 3 }), signal);
        const id = await run("second", { reservedAddress: 3 });
        expect((await observed(id)).networkAddresses).toEqual({ [network]: await addressOf(3) });
      });

      it("gives a container that joins its network again its reserved address, if no other container has that address now", async () => {
        await begin();
        const first = await run("first", { reservedAddress: 4 });
        for (const [id, reservedAddress] of [
          [first, 4],
          [await run("second"), 4],
        ] as const) {
          await harness.hands.disconnect(id, network);
          expect((await observed(id)).reservedAddress).toBeNull();
          await runtime.connectNetwork(id, network, { aliases: ["x"], reservedAddress }, signal);
          expect((await observed(id)).networks).toEqual([network]);
        }
        const all = await runtime.listContainers({ instance }, signal);
        const there = all.map(({ networkAddresses }) => networkAddresses[network]);
        expect(there.filter((item) => item === undefined)).toEqual([]);
        expect((await observed(first)).networkAddresses[network]).toBe(await addressOf(4));
        expect(new Set(there).size).toBe(2);
      });

      it("keeps the reserved addresses of containers when their network is made again", async () => {
        await begin();
        const id = await run("stays", { reservedAddress: 9 });
        const wanted = await addressOf(9);
        await runtime.stopContainer(id, 2_000, signal);
        await runtime.removeNetwork(network, signal);
        expect(await runtime.reservedRange(network, signal)).toBeUndefined();
        await runtime.ensureNetwork(network, { [INSTANCE]: instance }, signal);
        await runtime.startContainer(id, signal);
        expect(await observed(id)).toMatchObject({
          reservedAddress: wanted,
          networkAddresses: { [network]: wanted },
        });
      });

      it("adds names of the machine to a container's hosts file, and returns the machine's address", async () => {
        await begin();
        const named = await run("named", { hostAliases: ["one.internal", "two.internal"] });
        const plain = await run("plain");
        const gateway = await runtime.hostGateway(network, signal);
        expect(isIP(gateway ?? "")).toBe(4);
        const hosts = await harness.hands.hosts(named);
        expect(hosts.get("one.internal")).toBe(gateway);
        expect(hosts.get("two.internal")).toBe(gateway);
        expect((await harness.hands.hosts(plain)).has("one.internal")).toBe(false);
      });

      it("keeps a network that is in use, and removes it afterwards", async () => {
        await begin();
        const id = await run("uses");
        await runtime.removeNetwork(network, signal);
        expect(await harness.hands.hasNetwork(network)).toBe(true);
        await runtime.removeContainer(id, signal);
        await runtime.removeNetwork(network, signal);
        expect(await harness.hands.hasNetwork(network)).toBe(false);
        await runtime.removeNetwork(network, signal);
      });

      it("creates a volume once, lists it, and refuses one that is not Berth's", async () => {
        await begin();
        const name = `${prefix}-volume`;
        const labels = { [INSTANCE]: instance, [APP]: "db" };
        await runtime.ensureVolume(name, labels, signal);
        await runtime.ensureVolume(name, labels, signal);
        const [volume, ...others] = await runtime.listVolumes({ instance }, signal);
        expect(others).toEqual([]);
        expect(volume).toMatchObject({ name, labels });
        expect(await runtime.listVolumes({ instance, app: "web" }, signal)).toEqual([]);
        await expect(
          runtime.ensureVolume(name, { [INSTANCE]: instance, [APP]: "web" }, signal),
        ).rejects.toMatchObject({
          code: "name_clash",
          message: expect.stringContaining("belongs to the app db"),
        });

        await harness.hands.addForeignVolume(`${prefix}-foreign-volume`);
        await expect(
          runtime.ensureVolume(`${prefix}-foreign-volume`, labels, signal),
        ).rejects.toMatchObject({ code: "name_clash" });
      });

      it("removes an unused volume, and throws if it is in use", async () => {
        await begin();
        const name = `${prefix}-used`;
        await runtime.ensureVolume(name, { [INSTANCE]: instance }, signal);
        const mount = { type: "volume", volume: name, path: "/data", readOnly: false } as const;
        const id = await runtime.createContainer(spec("mounts", { mounts: [mount] }), signal);
        await expect(runtime.removeVolume(name, signal)).rejects.toMatchObject({
          code: "engine_error",
        });
        await runtime.removeContainer(id, signal);
        expect(await runtime.listVolumes({ instance }, signal)).toHaveLength(1);
        await runtime.removeVolume(name, signal);
        await runtime.removeVolume(name, signal);
        expect(await runtime.listVolumes({ instance }, signal)).toEqual([]);
      });
    });

    describe("the runtime, for images,", () => {
      it("inspects an image and its ports", async () => {
        const image = await runtime.inspectImage(harness.web, signal);
        expect(image?.id).toMatch(/^sha256:/);
        expect(image?.exposedPorts).toEqual([8080]);
        expect(await runtime.inspectImage(harness.missing, signal)).toBeUndefined();
      });

      it("pulls with progress that never decreases, and removes the image", async () => {
        const { open: reference } = harness.registry;
        const reports: PullProgress[] = [];
        await runtime.pullImage(reference, undefined, (report) => reports.push(report), signal);
        expect(await runtime.inspectImage(reference, signal)).toBeDefined();
        expect(reports.length).toBeGreaterThan(0);
        const bytes = reports.map((report) => report.currentBytes);
        expect(bytes).toEqual(bytes.toSorted((a, b) => a - b));
        expect(await runtime.removeImage(reference, signal)).toBe(true);
        expect(await runtime.inspectImage(reference, signal)).toBeUndefined();
        expect(await runtime.removeImage(reference, signal)).toBe(false);
      });

      it("reports the digest of an image that was pulled, and finds and pulls it by the digest", async () => {
        const { open: reference } = harness.registry;
        const digest = await runtime.pullImage(reference, undefined, () => {}, signal);
        expect(digest).toMatch(/^sha256:[0-9a-f]{64}$/);
        const pulled = await runtime.inspectImage(reference, signal);
        expect(pulled?.digest).toBe(digest);
        const exact = `${reference.slice(0, reference.lastIndexOf(":"))}@${digest}`;
        expect((await runtime.inspectImage(exact, signal))?.id).toBe(pulled?.id);
        expect((await runtime.inspectImage(pulled?.id ?? "", signal))?.id).toBe(pulled?.id);
        await runtime.removeImage(reference, signal);
        await runtime.removeImage(exact, signal);
        await runtime.pullImage(exact, undefined, () => {}, signal);
        expect((await runtime.inspectImage(exact, signal))?.id).toBe(pulled?.id);
        expect(await runtime.inspectImage(reference, signal)).toBeUndefined();
        expect(await runtime.removeImage(exact, signal)).toBe(true);
      });

      it("runs the image with the given id, even if no image has the given name any more", async () => {
        await begin();
        const image = await runtime.inspectImage(harness.web, signal);
        const id = await runtime.createContainer(
          spec("pinned", { image: harness.missing, imageId: image?.id ?? "" }),
          signal,
        );
        expect(await observed(id)).toMatchObject({ image: harness.missing, imageId: image?.id });
        const missing = spec("lost", { imageId: `sha256:${"0".repeat(64)}` });
        await expect(runtime.createContainer(missing, signal)).rejects.toMatchObject({
          code: "image_not_found",
        });
      });

      it("keeps an image that a container uses", async () => {
        await begin();
        await runtime.pullImage(harness.registry.open, undefined, () => {}, signal);
        const id = await run("uses-image", { image: harness.registry.open });
        expect(await runtime.removeImage(harness.registry.open, signal)).toBe(false);
        await runtime.removeContainer(id, signal);
        expect(await runtime.removeImage(harness.registry.open, signal)).toBe(true);
      });

      it("distinguishes a missing image from one to which access is denied", async () => {
        const pull = (reference: string, auth?: RegistryAuth) =>
          runtime.pullImage(reference, auth, () => {}, signal);
        await expect(pull(harness.registry.missing)).rejects.toMatchObject({
          code: "image_not_found",
        });
        await expect(pull(harness.registry.denied)).rejects.toMatchObject({
          code: "registry_denied",
        });
        const wrong = { ...harness.registry.auth, password: "wrong" };
        await expect(pull(harness.registry.denied, wrong)).rejects.toMatchObject({
          code: "registry_denied",
        });
        await pull(harness.registry.denied, harness.registry.auth);
        expect(await runtime.removeImage(harness.registry.denied, signal)).toBe(true);
      });
    });

    describe.each(["classic", "buildkit"] as const)("with the builder %s", (builder) => {
      buildContract(() => harness, builder);
    });

    describe("the runtime, for logs,", () => {
      it("returns lines with stream and time, oldest first, limited by `tail` and `since`", async () => {
        await begin();
        const id = await run("logs", { image: harness.exits });
        await ended(id);
        const lines = await read(id, 100);
        expect(lines.map((line) => line.message).toSorted()).toEqual([
          "no configuration found",
          "starting",
        ]);
        expect(lines.find((line) => line.stream === "stderr")?.message).toBe(
          "no configuration found",
        );
        for (const line of lines) expect(Date.parse(line.time)).toBeGreaterThan(0);
        expect(await read(id, 1)).toHaveLength(1);
        expect(await read(id, 100, Date.now() + 60_000)).toEqual([]);
        expect(await read(id, 100, Date.now() - 60_000)).toHaveLength(2);
      });

      it("follows a log until the container exits", async () => {
        await begin();
        const id = await run("followed");
        const lines: LogLine[] = [];
        let killed: Promise<void> | undefined;
        for await (const line of runtime.logs(id, { tail: 10, follow: true }, signal)) {
          lines.push(line);
          killed ??= harness.hands.kill(id);
        }
        await killed;
        expect(lines[0]?.message).toBe("web starts");
        expect((await observed(id)).state).toBe("exited");
      });

      it("ends a followed log without an error when the reader aborts", async () => {
        await begin();
        const id = await run("aborted");
        const reader = new AbortController();
        const messages: string[] = [];
        for await (const line of runtime.logs(id, { tail: 10, follow: true }, reader.signal)) {
          messages.push(line.message);
          reader.abort();
        }
        expect(messages).not.toEqual([]);
      });

      it("throws NotFoundError for a missing container", async () => {
        await expect(read("f".repeat(64), 1)).rejects.toMatchObject({ code: "not_found" });
      });
    });

    describe("the runtime, for commands and probes,", () => {
      it("runs a command and returns its exit code and output", async () => {
        await begin();
        const id = await run("commands");
        const result = await runtime.exec(id, harness.command, 5_000, signal);
        expect(result.exitCode).toBe(3);
        expect(result.output.trim()).toBe("out");
      });

      it("throws for a container that does not exist or does not run, and for a command that does not exist", async () => {
        await begin();
        await expect(
          runtime.exec("f".repeat(64), harness.command, 5_000, signal),
        ).rejects.toMatchObject({ code: "not_found" });
        const id = await runtime.createContainer(spec("not-running"), signal);
        await expect(runtime.exec(id, harness.command, 5_000, signal)).rejects.toMatchObject({
          code: "engine_error",
        });
      });

      it("probes a container by HTTP, TCP and command", async () => {
        await begin();
        const id = await run("probed");
        await healthy(id);
        const probe = (target: Parameters<ContainerRuntime["probe"]>[1]) =>
          runtime.probe(id, target, 2_000, signal);
        expect(await probe({ type: "http", port: 8080, path: "/healthz" })).toEqual({
          healthy: true,
          message: "GET /healthz answered 200",
        });
        expect((await probe({ type: "tcp", port: 8080 })).healthy).toBe(true);
        expect(await probe({ type: "tcp", port: 81 })).toEqual({
          healthy: false,
          message: "port 81: connection refused",
        });
        const command = await probe({ type: "command", command: harness.command });
        expect(command.healthy).toBe(false);
        expect(command.message).toMatch(/exited with 3: out/);
        expect(await runtime.listeningPorts(id, signal)).toEqual([8080]);
        expect((await probe({ type: "web", port: 8080, path: "/healthz" })).healthy).toBe(true);
        expect(await probe({ type: "web", port: 81, path: "/" })).toMatchObject({
          healthy: false,
          message: expect.stringContaining("connection refused"),
        });

        await harness.hands.makeUnhealthy(id);
        const sick = await probe({ type: "http", port: 8080, path: "/healthz" });
        expect(sick.healthy).toBe(false);
        expect(sick.message).toMatch(/^GET \/healthz answered (404|503)$/);
      });

      it("reports a stopped or missing container as unhealthy", async () => {
        await begin();
        const target = { type: "http", port: 8080, path: "/" } as const;
        const id = await run("dies");
        await healthy(id);
        await harness.hands.kill(id);
        await ended(id);
        for (const probed of [id, "f".repeat(64)]) {
          const last = await until("the probe sees it", async () => {
            const result = await runtime.probe(probed, target, 2_000, signal);
            return result.message === "the container is not running" ? result : undefined;
          });
          expect(last.healthy).toBe(false);
        }
      });
    });

    describe("the runtime, for events,", () => {
      it("emits the events of this instance's containers only", async () => {
        await begin();
        const reader = new AbortController();
        const seen: RuntimeEvent[] = [];
        let id = "";
        for await (const event of runtime.events({ instance }, reader.signal)) {
          seen.push(event);
          if (event.type === "connected") {
            await harness.hands.addStranger(`${prefix}-noise`);
            id = await run("watched");
            await harness.hands.kill(id);
            await runtime.removeContainer(id, signal);
          }
          if (event.type === "container" && event.action === "destroy") reader.abort();
        }
        expect(seen[0]).toEqual({ type: "connected" });
        const actions = seen.flatMap((event) => (event.type === "container" ? [event] : []));
        expect(actions.map((event) => event.action)).toEqual(
          expect.arrayContaining(["start", "die", "destroy"]),
        );
        for (const event of actions) expect(event).toMatchObject({ id, app: "watched" });
      });

      it("emits an event when a container is disconnected or renamed", async () => {
        await begin();
        const id = await run("tampered");
        await observed(id);
        const reader = new AbortController();
        const wanted = new Set(["disconnect", "rename"]);
        const told: RuntimeEvent[] = [];
        for await (const event of runtime.events({ instance }, reader.signal)) {
          if (event.type === "connected") {
            await harness.hands.disconnect(id, network);
            await harness.hands.rename(id, `${prefix}-tampered-with`);
          } else if (event.type === "container") {
            told.push(event);
            wanted.delete(event.action);
          }
          if (wanted.size === 0) reader.abort();
        }
        for (const event of told) expect(event).toMatchObject({ id, app: "tampered" });
      });
    });

    it("the runtime rejects with the reason of an aborted signal, and has no effect", async () => {
      await begin();
      const reason = new Error("the process ends");
      const aborted = AbortSignal.abort(reason);
      await expect(runtime.info(aborted)).rejects.toBe(reason);
      await expect(runtime.createContainer(spec("never"), aborted)).rejects.toBe(reason);
      expect(await runtime.listContainers({ instance }, signal)).toEqual([]);
    });

    it("the runtime stops waiting for the engine's answer when the signal aborts", async () => {
      await begin();
      const id = await run("slow-stop", { image: harness.stubborn });
      const waiter = new AbortController();
      const reason = new Error("the process ends");
      const stopping = runtime.stopContainer(id, 3_000, waiter.signal);
      waiter.abort(reason);
      await expect(stopping).rejects.toBe(reason);
    });
  });
}
