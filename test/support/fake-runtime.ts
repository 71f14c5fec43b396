import { type Clock, delay } from "../../src/base/clock.ts";
import { BerthError } from "../../src/base/errors.ts";
import type { EngineInfo, EngineLocation } from "../../src/controller/engine-host.ts";
import { leasePrefix } from "../../src/controller/engine-names.ts";
import { APP, INSTANCE, STACK } from "../../src/controller/labels.ts";
import type {
  BuildImageOptions,
  BuildOutput,
  BuiltImageInfo,
  ContainerRuntime,
  ContainerSpec,
  ImageInfo,
  Labels,
  LogLine,
  LogOptions,
  NetworkEndpoint,
  ObservedContainer,
  ObservedLease,
  ObservedNetwork,
  ObservedVolume,
  ProbeResult,
  ProbeTarget,
  PullProgress,
  RegistryAuth,
  RuntimeEvent,
} from "../../src/controller/runtime/port.ts";
import { parseImageReference } from "../../src/resources/image-reference.ts";
import { type EngineEvent, FakeEngine, type FakeImage, RESERVED_RANGE } from "./fake-engine.ts";
import { probeFake } from "./fake-probe.ts";

/** Thrown by a fault hook to simulate that the calling process is dead. */
export class KillSignal extends Error {
  override readonly name = "KillSignal";
}

export type CallName = Exclude<keyof ContainerRuntime, symbol | "location">;

export interface FakeCall {
  readonly name: CallName;
  readonly kind: "read" | "write" | "lease";
  readonly args: readonly unknown[];
  /** The number of the call, counted from 1 over all calls of this runtime. */
  readonly number: number;
}

/**
 * Hooks around each call. An error in `beforeCall` simulates a call that never arrives, and one in `afterCall`
 * simulates a reply that is lost after the effect. A promise delays the call.
 */
export interface FakeFaults {
  beforeCall?(call: FakeCall): void | Promise<void>;
  afterCall?(call: FakeCall): void | Promise<void>;
}

export interface FakeRuntimeOptions {
  readonly clock: Clock;
  readonly images?: Readonly<Record<string, FakeImage>>;
  readonly faults?: FakeFaults;
  /** The time that the engine needs for a call. With the default of 0, a call waits for no timer. */
  readonly latencyMs?: number | ((call: FakeCall) => number);
  /** The place where the engine runs, as Berth sees it; by default, this machine. */
  readonly location?: EngineLocation;
  /** An existing engine, such as the one of a runtime that has died. */
  readonly engine?: FakeEngine;
}

const writes: ReadonlySet<CallName> = new Set<CallName>([
  "createContainer",
  "startContainer",
  "stopContainer",
  "removeContainer",
  "renameContainer",
  "connectNetwork",
  "ensureNetwork",
  "ensureStackNetwork",
  "removeNetwork",
  "ensureVolume",
  "removeVolume",
  "pullImage",
  "buildImage",
  "removeImage",
]);

/** The names of the calls for the lease, which change nothing that apps use and are not counted as writes. */
const leaseCalls: ReadonlySet<CallName> = new Set<CallName>([
  "createLease",
  "listLeases",
  "removeLease",
]);

/** The runtime port on a FakeEngine, with faults, latency and call counts. */
export class FakeRuntime implements ContainerRuntime {
  readonly engine: FakeEngine;
  readonly clock: Clock;
  readonly location: EngineLocation;
  faults: FakeFaults;
  readonly #latencyMs: (call: FakeCall) => number;
  readonly #byName = new Map<CallName, number>();
  #number = 0;
  #reads = 0;
  #writes = 0;
  #dead = false;

  constructor(options: FakeRuntimeOptions) {
    this.clock = options.clock;
    this.location = options.location ?? "this-machine";
    this.engine = options.engine ?? new FakeEngine(options.clock);
    for (const [reference, image] of Object.entries(options.images ?? {}))
      this.engine.setImage(reference, image);
    this.faults = options.faults ?? {};
    const latency = options.latencyMs ?? 0;
    this.#latencyMs = typeof latency === "number" ? () => latency : latency;
  }

  /** The number of calls so far, including those that were refused. */
  get calls(): { reads: number; writes: number; byName: ReadonlyMap<CallName, number> } {
    return { reads: this.#reads, writes: this.#writes, byName: this.#byName };
  }

  resetCalls(): void {
    this.#reads = 0;
    this.#writes = 0;
    this.#byName.clear();
  }

  /**
   * Simulates the death of the process that uses this runtime: its calls, including pending ones, never settle, so that
   * no code runs after them. The next process uses `new FakeRuntime({ engine })`.
   */
  die(): void {
    this.#dead = true;
  }

  // The following methods simulate changes that a user makes on the engine.
  containers() {
    return this.engine.containers();
  }
  kill(id: string, exitCode = 137): void {
    this.engine.kill(id, exitCode);
  }
  rename(id: string, name: string): void {
    this.engine.rename(id, name);
  }
  disconnect(id: string, network: string): void {
    this.engine.disconnect(id, network);
  }
  destroy(id: string): void {
    this.engine.remove(id);
  }
  /**
   * Adds a container that another program has created. Creates the container's image if the engine does not have it.
   */
  addStranger(
    name: string,
    options: { labels?: Labels; image?: string; running?: boolean } = {},
  ): string {
    const image = options.image ?? "stranger:1";
    if (!this.engine.localImages.has(image)) this.engine.setImage(image, {});
    if (!this.engine.networks.has("bridge")) this.engine.networks.set("bridge", {});
    const container = this.engine.create({
      name,
      image,
      labels: options.labels ?? {},
      env: [],
      network: "bridge",
      aliases: [],
      mounts: [],
      publish: [],
      stopGraceMs: 10_000,
    });
    if (options.running !== false) this.engine.start(container.id);
    return container.id;
  }

  info(signal: AbortSignal): Promise<EngineInfo> {
    return this.#call("info", [], signal, () => ({
      name: "fake",
      version: "1.0.0",
      apiVersion: "1.41",
      os: "linux",
      arch: "amd64",
      cpus: 2,
      memoryBytes: 4 * 2 ** 30,
    }));
  }

  ping(signal: AbortSignal): Promise<void> {
    return this.#call("ping", [], signal, () => {
      if (this.engine.isShuttingDown) throw createEngineUnreachableError("ping");
    });
  }

  listContainers(
    filter: { readonly instance: string; readonly app?: string },
    signal: AbortSignal,
  ): Promise<ObservedContainer[]> {
    return this.#call("listContainers", [filter], signal, () =>
      this.engine
        .containers()
        .filter((container) => matches(container.labels, filter))
        .map((container) => this.engine.observe(container)),
    );
  }

  createContainer(spec: ContainerSpec, signal: AbortSignal): Promise<string> {
    return this.#call("createContainer", [spec], signal, () => {
      const there = this.engine.find(spec.name);
      if (there && hasLabels(there.labels, spec.labels)) return there.id;
      return this.engine.create(spec).id;
    });
  }

  startContainer(id: string, signal: AbortSignal): Promise<void> {
    return this.#call("startContainer", [id], signal, () => {
      this.engine.rejoin(id);
      this.engine.start(id);
    });
  }

  stopContainer(id: string, graceMs: number, signal: AbortSignal): Promise<void> {
    return this.#call("stopContainer", [id, graceMs], signal, () =>
      this.engine.stop(id, graceMs, signal),
    );
  }

  removeContainer(id: string, signal: AbortSignal): Promise<void> {
    return this.#call("removeContainer", [id], signal, () => {
      if (this.engine.find(id)) this.engine.remove(id);
    });
  }

  renameContainer(id: string, name: string, signal: AbortSignal): Promise<void> {
    return this.#call("renameContainer", [id, name], signal, () => this.engine.rename(id, name));
  }

  connectNetwork(
    id: string,
    network: string,
    endpoint: NetworkEndpoint,
    signal: AbortSignal,
  ): Promise<void> {
    return this.#call("connectNetwork", [id, network, endpoint], signal, () => {
      const container = this.engine.container(id);
      if (!this.engine.networks.has(network))
        throw new BerthError("engine_error", `network ${network} not found`);
      if (container.networks.has(network)) return;
      const { aliases } = endpoint;
      container.networks.set(network, { aliases, joined: this.engine.networks.get(network) });
      if (network === container.spec.network) this.engine.readdress(container, endpoint);
    });
  }

  ensureNetwork(name: string, labels: Labels, signal: AbortSignal): Promise<void> {
    return this.#call("ensureNetwork", [name, labels], signal, () =>
      ensure(this.engine.networks, "network", name, labels),
    );
  }

  ensureStackNetwork(
    name: string,
    labels: Labels,
    pool: string,
    signal: AbortSignal,
  ): Promise<void> {
    return this.#call("ensureStackNetwork", [name, labels, pool], signal, () =>
      ensure(this.engine.networks, "network", name, labels),
    );
  }

  listStackNetworks(
    filter: { readonly instance: string },
    signal: AbortSignal,
  ): Promise<readonly ObservedNetwork[]> {
    return this.#call("listStackNetworks", [filter], signal, () =>
      [...this.engine.networks]
        .filter(([, labels]) => matches(labels, filter) && STACK in labels)
        .map(([name, labels]) => ({ name, labels })),
    );
  }

  /** Returns no subnets, because the networks of the in-memory engine have none. */
  networkSubnets(name: string, signal: AbortSignal): Promise<readonly string[]> {
    return this.#call("networkSubnets", [name], signal, () => []);
  }

  reservedRange(network: string, signal: AbortSignal): Promise<string | undefined> {
    return this.#call("reservedRange", [network], signal, () =>
      this.engine.networks.has(network) ? RESERVED_RANGE : undefined,
    );
  }

  hostGateway(network: string, signal: AbortSignal): Promise<string | undefined> {
    return this.#call("hostGateway", [network], signal, () => this.engine.hostAddress);
  }

  removeNetwork(name: string, signal: AbortSignal): Promise<void> {
    return this.#call("removeNetwork", [name], signal, () => {
      const used = this.engine
        .containers()
        .some((container) => container.state === "running" && container.networks.has(name));
      if (!used) this.engine.networks.delete(name);
    });
  }

  ensureVolume(name: string, labels: Labels, signal: AbortSignal): Promise<void> {
    return this.#call("ensureVolume", [name, labels], signal, () =>
      ensure(this.engine.volumes, "volume", name, labels),
    );
  }

  removeVolume(name: string, signal: AbortSignal): Promise<void> {
    return this.#call("removeVolume", [name], signal, () => {
      const user = this.engine
        .containers()
        .find((container) =>
          container.spec.mounts.some((mount) => mount.type === "volume" && mount.volume === name),
        );
      if (user)
        throw new BerthError(
          "engine_error",
          `the volume ${name} is in use by the container ${user.name}`,
        );
      this.engine.volumes.delete(name);
    });
  }

  listVolumes(
    filter: { readonly instance: string; readonly app?: string },
    signal: AbortSignal,
  ): Promise<ObservedVolume[]> {
    return this.#call("listVolumes", [filter], signal, () =>
      [...this.engine.volumes]
        .filter(([, labels]) => matches(labels, filter))
        .map(([name, labels]) => ({ name, labels })),
    );
  }

  createLease(instance: string, term: number, labels: Labels, signal: AbortSignal): Promise<void> {
    return this.#call("createLease", [instance, term, labels], signal, () => {
      const name = leasePrefix(instance) + term;
      if (!this.engine.leases.has(name)) this.engine.leases.set(name, { ...labels });
    });
  }

  listLeases(instance: string, signal: AbortSignal): Promise<readonly ObservedLease[]> {
    return this.#call("listLeases", [instance], signal, () => {
      const prefix = leasePrefix(instance);
      return [...this.engine.leases]
        .filter(([name]) => name.startsWith(prefix))
        .map(([name, labels]) => ({ term: Number(name.slice(prefix.length)), labels }));
    });
  }

  removeLease(instance: string, term: number, signal: AbortSignal): Promise<void> {
    return this.#call("removeLease", [instance, term], signal, () => {
      this.engine.leases.delete(leasePrefix(instance) + term);
    });
  }

  inspectImage(reference: string, signal: AbortSignal): Promise<ImageInfo | undefined> {
    return this.#call("inspectImage", [reference], signal, () => {
      const held = this.engine.findImage(reference);
      if (!held) return undefined;
      const { repository } = parseImageReference(reference);
      const digest = this.engine.digestOf(held.image);
      const isInRegistry = this.engine.registryDigests.has(`${repository}@${digest}`);
      return {
        id: held.id,
        digest: isInRegistry ? digest : undefined,
        exposedPorts: held.image.exposedPorts ?? [],
        platform: held.image.platform,
      };
    });
  }

  pullImage(
    reference: string,
    auth: RegistryAuth | undefined,
    onProgress: (progress: PullProgress) => void,
    signal: AbortSignal,
    platform?: string,
  ): Promise<string | undefined> {
    return this.#call("pullImage", [reference, auth?.username], signal, async () => {
      const named = this.engine.registry.get(reference);
      const tagged =
        named?.platform === platform ? named : (named?.platforms?.[platform ?? ""] ?? named);
      const image = tagged ?? this.engine.registryDigests.get(reference);
      if (!image) throw new BerthError("image_not_found", `the registry has no image ${reference}`);
      if (
        image.auth &&
        (auth?.username !== image.auth.username || auth.password !== image.auth.password)
      )
        throw new BerthError("registry_denied", `the registry denied access to ${reference}`);
      const totalBytes = image.sizeBytes ?? 1024;
      onProgress({ currentBytes: 0, totalBytes, message: "Downloading" });
      if (image.pullMs) await delay(this.clock, image.pullMs, signal);
      onProgress({ currentBytes: totalBytes, totalBytes, message: "Pull complete" });
      const id = this.engine.imageId(image);
      if (tagged) this.engine.tagImage(reference, image);
      else if (!this.engine.findImage(id)) this.engine.untagged.set(id, { id, image });
      return this.engine.digestOf(image);
    });
  }

  buildImage(
    context: AsyncIterable<Uint8Array>,
    options: BuildImageOptions,
    onOutput: (line: BuildOutput) => void,
    signal: AbortSignal,
  ): Promise<{ readonly imageId: string; readonly bytes: number }> {
    const heard = (line: BuildOutput) => {
      if (!this.#dead) onOutput(line);
    };
    return this.#call("buildImage", [options], signal, () =>
      this.engine.builder.build(context, options, heard, signal),
    );
  }

  listImages(
    filter: { readonly instance: string },
    signal: AbortSignal,
  ): Promise<BuiltImageInfo[]> {
    return this.#call("listImages", [filter], signal, () =>
      this.engine.builder.list(filter.instance),
    );
  }

  freeBytes(signal: AbortSignal): Promise<number | undefined> {
    return this.#call("freeBytes", [], signal, () => this.engine.builder.freeBytes);
  }

  removeImage(reference: string, signal: AbortSignal): Promise<boolean> {
    return this.#call("removeImage", [reference], signal, () =>
      this.engine.builder.remove(reference),
    );
  }

  async *logs(id: string, options: LogOptions, signal: AbortSignal): AsyncIterable<LogLine> {
    const container = await this.#call("logs", [id, options], signal, () =>
      this.engine.container(id),
    );
    const since = options.sinceMs;
    const wanted = container.lines.filter(
      (line) => since === undefined || Date.parse(line.time) >= since,
    );
    yield* options.tail > 0 ? wanted.slice(-options.tail) : [];
    let last = container.lines.at(-1);
    while (options.follow && !signal.aborted) {
      const fresh = last
        ? container.lines.slice(container.lines.lastIndexOf(last) + 1)
        : [...container.lines];
      last = fresh.at(-1) ?? last;
      yield* fresh;
      if (container.state !== "running" && container.state !== "created") return;
      if (fresh.length === 0) await this.engine.changed(signal);
    }
  }

  exec(
    id: string,
    command: readonly string[],
    timeoutMs: number,
    signal: AbortSignal,
  ): Promise<{ exitCode: number; output: string }> {
    return this.#call("exec", [id, command, timeoutMs], signal, () => {
      const container = this.engine.container(id);
      if (container.state !== "running")
        throw new BerthError("engine_error", `the container ${container.name} is not running`);
      return container.image.exec?.(command) ?? { exitCode: 0, output: "" };
    });
  }

  probe(
    id: string,
    target: ProbeTarget,
    timeoutMs: number,
    signal: AbortSignal,
  ): Promise<ProbeResult> {
    return this.#call("probe", [id, target, timeoutMs], signal, () =>
      probeFake(this.engine.find(id), target, this.clock.now()),
    );
  }

  listeningPorts(id: string, signal: AbortSignal): Promise<readonly number[] | undefined> {
    return this.#call("listeningPorts", [id], signal, () => {
      const container = this.engine.find(id);
      if (container?.state !== "running" || container.startedMs === null) return undefined;
      const ready = this.clock.now() >= container.startedMs + (container.image.readyAfterMs ?? 0);
      return ready ? container.image.listensOn : [];
    });
  }

  countConnections(id: string, port: number, signal: AbortSignal): Promise<number | undefined> {
    return this.#call("countConnections", [id, port], signal, () => {
      const container = this.engine.find(id);
      return container?.state === "running" ? container.connections : undefined;
    });
  }

  async *events(
    filter: { readonly instance: string },
    signal: AbortSignal,
  ): AsyncIterable<RuntimeEvent> {
    const queue: RuntimeEvent[] = [{ type: "connected" }];
    if (!this.engine.reachable)
      queue.splice(0, 1, { type: "disconnected", message: "connection refused" });
    let wake = nothing;
    const stop = this.engine.subscribe((event: EngineEvent) => {
      if (this.#dead) return;
      if (event.type === "container") {
        if (event.instance !== filter.instance) return;
        queue.push({ type: "container", action: event.action, id: event.id, app: event.app });
      } else queue.push(event);
      wake();
    });
    const onAbort = () => wake();
    signal.addEventListener("abort", onAbort, { once: true });
    try {
      while (!signal.aborted) {
        const event = queue.shift();
        if (event) yield event;
        else await new Promise<void>((resolve) => (wake = resolve));
      }
    } finally {
      stop();
      signal.removeEventListener("abort", onAbort);
    }
  }

  async #call<T>(
    name: CallName,
    args: readonly unknown[],
    signal: AbortSignal,
    effect: () => T | Promise<T>,
  ): Promise<T> {
    const kind = leaseCalls.has(name) ? "lease" : writes.has(name) ? "write" : "read";
    this.#number += 1;
    if (kind === "write") this.#writes += 1;
    if (kind === "read") this.#reads += 1;
    this.#byName.set(name, (this.#byName.get(name) ?? 0) + 1);
    const call: FakeCall = { name, kind, args, number: this.#number };
    await this.#alive();
    signal.throwIfAborted();
    try {
      await this.faults.beforeCall?.(call);
      if (!this.engine.reachable) throw createEngineUnreachableError(name);
      const latencyMs = this.#latencyMs(call);
      if (latencyMs > 0) await delay(this.clock, latencyMs, signal);
      await this.#alive();
      signal.throwIfAborted();
      const result = await effect();
      await this.faults.afterCall?.(call);
      return result;
    } catch (error) {
      if (error instanceof KillSignal) this.#dead = true;
      await this.#alive();
      throw error;
    } finally {
      await this.#alive();
    }
  }

  /**
   * Resolves at once while the simulated Berth process is alive. Never resolves when that process is dead, so that its
   * engine calls return neither a result nor an error.
   */
  async #alive(): Promise<void> {
    if (this.#dead) await new Promise<never>(() => {});
  }
}

const nothing = () => {};

export function createEngineUnreachableError(what: string): BerthError {
  return new BerthError("engine_unreachable", `the engine did not answer ${what}: refused`, {
    hint: "check that the engine runs",
  });
}

function matches(
  labels: Labels,
  filter: { readonly instance: string; readonly app?: string },
): boolean {
  return (
    labels[INSTANCE] === filter.instance && (filter.app === undefined || labels[APP] === filter.app)
  );
}

function hasLabels(there: Labels, wanted: Labels): boolean {
  return Object.entries(wanted).every(([key, value]) => there[key] === value);
}

function ensure(map: Map<string, Labels>, what: string, name: string, labels: Labels): void {
  const there = map.get(name);
  // The labels are copied, so that each created object has its own.
  if (!there) map.set(name, { ...labels });
  else if (!hasLabels(there, labels))
    throw new BerthError(
      "name_clash",
      there[INSTANCE] === labels[INSTANCE] && there[APP] !== undefined
        ? `the ${what} ${name} belongs to the app ${there[APP]}`
        : `the ${what} ${name} already exists and does not belong to Berth`,
      {
        hint: `remove it: docker ${what} rm ${name}`,
      },
    );
}
