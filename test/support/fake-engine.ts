import { createHash } from "node:crypto";
import type { Clock } from "../../src/base/clock.ts";
import { timestamp } from "../../src/base/clock.ts";
import { BerthError, NotFoundError } from "../../src/base/errors.ts";
import type { ProcessSettings, PublishSpec } from "../../src/controller/container-settings.ts";
import { APP, INSTANCE } from "../../src/controller/labels.ts";
import { findReservedAddress } from "../../src/controller/reserved-addresses.ts";
import type {
  ContainerSpec,
  ContainerState,
  Labels,
  LogLine,
  NetworkEndpoint,
  ObservedContainer,
  RuntimeEvent,
} from "../../src/controller/runtime/port.ts";
import { parseImageReference } from "../../src/resources/image-reference.ts";
import { FakeImageBuilder } from "./fake-image-builder.ts";
import { describeSettings } from "./fake-settings.ts";

/**
 * The behaviour of the containers of an image. By default, a container runs until it is stopped, and is healthy at
 * once.
 */
export interface FakeImage {
  readonly exposedPorts?: readonly number[];
  /** The settings that the image gives to its containers; default: none. */
  readonly defaults?: ProcessSettings;
  /** The ports that accept connections when the container is ready; by default, every port does. */
  readonly listensOn?: readonly number[];
  /** The time from the start until the ports accept connections; Infinity if they never do. */
  readonly readyAfterMs?: number;
  /**
   * The time from the start until GET answers 200 and commands exit with 0; until then, they return 503 and 1. Infinity
   * if they never do.
   */
  readonly healthyAfterMs?: number;
  /**
   * The protocol in which the port answers a GET; HTTP by default. With `nothing`, the port accepts connections and
   * never answers.
   */
  readonly speaks?: "http" | "other" | "nothing";
  readonly exits?: { readonly afterMs: number; readonly code: number; readonly oom?: boolean };
  /** If set, the engine refuses to start a container with this error. */
  readonly startError?: string;
  /** The lines that the container prints at each start. */
  readonly logs?: readonly (
    | string
    | { readonly stream: "stdout" | "stderr"; readonly message: string }
  )[];
  /** If true, only SIGKILL ends the container, so that a stop takes the whole grace period. */
  readonly ignoresTerm?: boolean;
  readonly exec?: (command: readonly string[]) => { exitCode: number; output: string };
  /** If false, the image is only in the registry and must be pulled first. Default true. */
  readonly held?: boolean;
  /** The credentials that the registry requires. */
  readonly auth?: { readonly username: string; readonly password: string };
  readonly sizeBytes?: number;
  /** The platform of the image; by default, the engine does not report it. */
  readonly platform?: string;
  /** The images of the same name for other platforms. */
  readonly platforms?: Readonly<Record<string, FakeImage>>;
  readonly pullMs?: number;
}

/** A container of the engine. Tests may read it, but only the engine changes it. */
export interface FakeContainer {
  readonly id: string;
  name: string;
  readonly labels: Labels;
  readonly spec: ContainerSpec;
  readonly image: FakeImage;
  readonly imageId: string;
  /** Settings that another program has given to the container, such as Privileged. */
  readonly foreign: readonly string[];
  state: ContainerState;
  exitCode: number | null;
  oomKilled: boolean;
  error: string | null;
  readonly createdMs: number;
  startedMs: number | null;
  finishedMs: number | null;
  memoryBytes: number | null;
  nanoCpus: number | null;
  unhealthy: boolean;
  /** The number of open connections to the container's port; undefined if the engine does not report them. */
  connections: number | undefined;
  readonly networks: Map<string, FakeEndpoint>;
  published: PublishSpec[];
  /** The address of the container on every network; it changes at each start, unless it is reserved. */
  address: string;
  /** The reserved address that the container asks for; null if the engine chooses its address. */
  reservedAddress: string | null;
  readonly lines: LogLine[];
  cancelExit: () => void;
}

export interface FakeEndpoint {
  readonly aliases: readonly string[];
  /** The network object on which the container was started. A later network with the same name is another object. */
  joined: Labels | undefined;
}

interface HeldImage {
  readonly id: string;
  readonly image: FakeImage;
}

/** The range of the reserved addresses of every network of the engine. */
export const RESERVED_RANGE = "10.128.0.0/9";

/** The number of log lines that are kept for each container, as by a log driver with a size limit. */
const LINES_KEPT_MAX = 2_000;

/**
 * An in-memory container engine whose times come from a Clock: the same calls at the same times produce the same state,
 * ids and events. It outlives the runtimes that use it, as an engine outlives Berth.
 */
export class FakeEngine {
  readonly clock: Clock;
  #addresses = 0;
  readonly networks = new Map<string, Labels>();
  readonly volumes = new Map<string, Labels>();
  /** The labels of each record of a lease on this engine, by the record's name. */
  readonly leases = new Map<string, Labels>();
  /** The images of the engine by their references. */
  readonly localImages = new Map<string, HeldImage>();
  /** The images whose reference now belongs to a newer image, by id. */
  readonly untagged = new Map<string, HeldImage>();
  readonly registry = new Map<string, FakeImage>();
  /** Every image that was ever in the registry, by a reference such as `REPOSITORY@DIGEST`. */
  readonly registryDigests = new Map<string, FakeImage>();
  readonly builder = new FakeImageBuilder(this);
  readonly #imageIds = new Map<FakeImage, string>();
  readonly #containers = new Map<string, FakeContainer>();
  readonly #listeners = new Set<(event: EngineEvent) => void>();
  readonly #changed = new Set<() => void>();
  #ids = 0;
  #ports = 40_000;
  #reachable = true;
  #isShuttingDown = false;
  /** The address at which containers reach the machine. */
  readonly hostAddress = "10.255.0.1";
  /** If false, events are dropped, although the stream stays open. */
  deliverEvents = true;

  constructor(clock: Clock, images: Readonly<Record<string, FakeImage>> = {}) {
    this.clock = clock;
    for (const [reference, image] of Object.entries(images)) this.setImage(reference, image);
  }

  get reachable(): boolean {
    return this.#reachable;
  }

  /** True from the beginning of a shutdown: calls on open connections are answered, and new connections are refused. */
  get isShuttingDown(): boolean {
    return this.#isShuttingDown;
  }

  /**
   * Shuts the engine down as a service manager does, which ends its containers. Call `setReachable(false)`
   * afterwards.
   */
  shutDown(): void {
    this.#isShuttingDown = true;
    for (const { id, state } of this.containers()) if (state === "running") this.kill(id, 143);
  }

  /** Makes the engine assign the addresses from 10.0.0.1 on again, as it does after a restart of the machine. */
  reuseAddresses(): void {
    this.#addresses = 0;
  }

  /** Sets whether the engine is reachable. While it is not, every call is refused, and event streams are closed. */
  setReachable(reachable: boolean): void {
    if (reachable) this.#isShuttingDown = false;
    if (this.#reachable === reachable) return;
    this.#reachable = reachable;
    this.#emit(
      reachable ? { type: "connected" } : { type: "disconnected", message: "connection refused" },
    );
  }

  /** Closes the event streams once. Clients reconnect immediately, but miss the events of the interruption. */
  cutEvents(message = "the stream ended"): void {
    this.#emit({ type: "disconnected", message });
    this.#emit({ type: "connected" });
  }

  /** Adds an image to the registry and, unless `held` is false, to the engine. */
  setImage(reference: string, image: FakeImage): void {
    this.push(reference, image);
    if (image.held !== false) this.addLocalImage(reference);
  }

  /** Moves the reference in the registry to another image. The engine learns of it with the next pull. */
  push(reference: string, image: FakeImage): void {
    this.registry.set(reference, image);
    const { repository } = parseImageReference(reference);
    this.registryDigests.set(`${repository}@${this.digestOf(image)}`, image);
  }

  addLocalImage(reference: string): void {
    const image = this.registry.get(reference);
    if (image) this.tagImage(reference, image);
  }

  /** Makes the reference point to `image`, like `docker tag`. An image that loses its reference becomes untagged. */
  tagImage(reference: string, image: FakeImage, id = this.imageId(image)): void {
    const before = this.localImages.get(reference);
    if (before && before.id !== id) this.untagged.set(before.id, before);
    this.localImages.set(reference, { id, image });
  }

  /** Changes the behaviour of an image without changing the image, as if something that it depends on had changed. */
  setBehaviour(reference: string, image: FakeImage): void {
    const before = this.registry.get(reference);
    if (before) this.#imageIds.set(image, this.imageId(before));
    this.setImage(reference, image);
  }

  imageId(image: FakeImage): string {
    const id = this.#imageIds.get(image) ?? `sha256:${this.#nextId("image")}`;
    this.#imageIds.set(image, id);
    return id;
  }

  digestOf(image: FakeImage): string {
    return `sha256:${createHash("sha256").update(this.imageId(image)).digest("hex")}`;
  }

  /** Finds an image of the engine by its reference, its id, or its repository and digest. */
  findImage(reference: string): HeldImage | undefined {
    const tagged = this.localImages.get(reference);
    if (tagged) return tagged;
    const { digest } = parseImageReference(reference);
    const isNamed = ({ id, image }: HeldImage) =>
      id === reference || (digest !== null && this.digestOf(image) === digest);
    return [...this.localImages.values(), ...this.untagged.values()].find(isNamed);
  }

  /** Removes the images that have no reference and that no container uses, like `docker image prune`. */
  pruneImages(): void {
    const used = new Set(this.containers().map(({ imageId }) => imageId));
    for (const id of this.untagged.keys()) if (!used.has(id)) this.untagged.delete(id);
  }

  /** Lists every container in the order of creation, including those of other programs. */
  containers(): readonly FakeContainer[] {
    return [...this.#containers.values()];
  }

  /** Finds a container by id or by name. */
  find(idOrName: string): FakeContainer | undefined {
    return (
      this.#containers.get(idOrName) ?? this.containers().find((item) => item.name === idOrName)
    );
  }

  /** Returns a container by id or by name; throws NotFoundError. */
  container(idOrName: string): FakeContainer {
    const container = this.find(idOrName);
    if (!container) throw new NotFoundError(`there is no container ${idOrName}`);
    return container;
  }

  create(spec: ContainerSpec, foreign: readonly string[] = []): FakeContainer {
    const wanted = spec.imageId ?? spec.image;
    const held = this.findImage(wanted);
    if (!held)
      throw new BerthError("image_not_found", `the engine does not hold the image ${wanted}`);
    if (this.find(spec.name)) throw nameClash(spec.name);
    for (const mount of spec.mounts) {
      if (mount.type === "volume" && !this.volumes.has(mount.volume))
        this.volumes.set(mount.volume, {});
    }
    const container: FakeContainer = {
      id: this.#nextId("container"),
      name: spec.name,
      labels: spec.labels,
      spec,
      image: held.image,
      imageId: held.id,
      foreign,
      state: "created",
      exitCode: null,
      oomKilled: false,
      error: null,
      createdMs: this.clock.now(),
      startedMs: null,
      finishedMs: null,
      memoryBytes: spec.memoryBytes ?? null,
      nanoCpus: spec.nanoCpus ?? null,
      unhealthy: false,
      connections: undefined,
      networks: new Map([[spec.network, { aliases: spec.aliases, joined: undefined }]]),
      published: [],
      address: "",
      reservedAddress: findAddress(spec),
      lines: [],
      cancelExit: () => {},
    };
    this.#containers.set(container.id, container);
    this.#containerEvent(container, "create");
    return container;
  }

  start(id: string): void {
    const container = this.container(id);
    if (container.state === "running") return;
    const fail = (code: "engine_error" | "port_taken", message: string): never => {
      container.error = message;
      container.exitCode = 128;
      throw new BerthError(code, message);
    };
    for (const [name, endpoint] of container.networks) {
      const network = this.networks.get(name);
      if (network === undefined || (endpoint.joined ?? network) !== network)
        fail("engine_error", `network ${name} not found`);
    }
    if (container.image.startError !== undefined) fail("engine_error", container.image.startError);
    const published = container.spec.publish.map((publish) => {
      if (publish.hostPort === 0) {
        this.#ports += 1;
        return { ...publish, hostPort: this.#ports };
      }
      const taken = this.containers().some(
        (other) =>
          other.state === "running" &&
          other.published.some(
            (item) => item.hostPort === publish.hostPort && item.protocol === publish.protocol,
          ),
      );
      if (taken) fail("port_taken", `port ${publish.hostPort} is already allocated`);
      return publish;
    });
    for (const [name, endpoint] of container.networks) endpoint.joined = this.networks.get(name);
    container.published = published;
    container.state = "running";
    container.exitCode = null;
    container.oomKilled = false;
    container.error = null;
    container.startedMs = this.clock.now();
    container.address = this.#chooseAddress(container);
    container.finishedMs = null;
    container.unhealthy = false;
    for (const line of container.image.logs ?? []) this.write(container, line);
    this.#containerEvent(container, "start");
    const { exits } = container.image;
    if (exits) {
      container.cancelExit = this.clock.setTimer(exits.afterMs, () =>
        this.#end(container, exits.code, exits.oom ?? false),
      );
    }
  }

  /** Sets the reserved address that `endpoint` requests when the container joins its network again. */
  readdress(container: FakeContainer, endpoint: NetworkEndpoint): void {
    const before = container.reservedAddress;
    container.reservedAddress = findAddress(endpoint);
    if (container.state !== "running" || before === container.reservedAddress) return;
    container.address = this.#chooseAddress(container);
  }

  /**
   * Returns the container's reserved address if no other container has it; otherwise an address that the engine
   * chooses.
   */
  #chooseAddress(container: FakeContainer): string {
    const { reservedAddress: wanted } = container;
    const isTaken = this.containers().some(
      (other) => other !== container && other.state === "running" && other.address === wanted,
    );
    if (wanted !== null && !isTaken) return wanted;
    container.reservedAddress = null;
    this.#addresses += 1;
    return `10.0.${Math.floor(this.#addresses / 250) % 250}.${this.#addresses % 250}`;
  }

  /** Adds a line to a container's log. */
  write(
    container: FakeContainer,
    line: string | { readonly stream: "stdout" | "stderr"; readonly message: string },
  ): void {
    const { stream, message } =
      typeof line === "string" ? { stream: "stdout" as const, message: line } : line;
    container.lines.push({ time: timestamp(this.clock.now()), stream, message });
    if (container.lines.length > LINES_KEPT_MAX) container.lines.shift();
    this.#wake();
  }

  /** Sends SIGTERM, and SIGKILL after the grace period. The stop continues even if the caller stops waiting. */
  async stop(id: string, graceMs: number, signal: AbortSignal): Promise<void> {
    const container = this.find(id);
    if (container?.state !== "running" && container?.state !== "paused") return;
    const startedMs = container.startedMs;
    // Stopping a paused container kills it, because it cannot handle SIGTERM.
    if (!container.image.ignoresTerm || container.state === "paused") {
      this.kill(id, 143);
      return;
    }
    const sameRun = () => container.state === "running" && container.startedMs === startedMs;
    this.clock.setTimer(graceMs, () => {
      if (sameRun()) this.#end(container, 137, false);
    });
    while (sameRun()) {
      signal.throwIfAborted();
      await this.changed(signal);
    }
  }

  /** Ends the process of a running container with `exitCode`. */
  kill(idOrName: string, exitCode = 137): void {
    const container = this.container(idOrName);
    if (container.state === "running" || container.state === "paused")
      this.#end(container, exitCode, false);
  }

  /** Kills and removes a container, like `docker rm -f`. */
  remove(idOrName: string): void {
    const container = this.container(idOrName);
    this.kill(container.id);
    container.cancelExit();
    this.#containers.delete(container.id);
    this.#containerEvent(container, "destroy");
  }

  /**
   * Removes a container and creates another one with its name and its labels, as a person or another program does. The
   * new container runs if the removed one ran.
   */
  recreate(
    idOrName: string,
    changes: Partial<ContainerSpec>,
    foreign: readonly string[] = [],
  ): FakeContainer {
    const { name, spec, state } = this.container(idOrName);
    this.remove(idOrName);
    const { imageId, ...rest } = spec;
    const pinned = imageId === undefined || "image" in changes ? {} : { imageId };
    const made = this.create({ ...rest, ...pinned, ...changes, name }, foreign);
    if (state === "running") this.start(made.id);
    return made;
  }

  /** Connects a container to a network, as `docker network connect` does. */
  connect(idOrName: string, network: string): void {
    const container = this.container(idOrName);
    const joined = this.networks.get(network) ?? {};
    this.networks.set(network, joined);
    container.networks.set(network, { aliases: [], joined });
    this.#containerEvent(container, "connect");
  }

  rename(idOrName: string, name: string): void {
    const container = this.container(idOrName);
    const other = this.find(name);
    if (other && other !== container) throw nameClash(name);
    if (other === container) return;
    container.name = name;
    this.#containerEvent(container, "rename");
  }

  /** Removes networks without a running container, as `docker network prune` does. */
  pruneNetworks(): void {
    for (const name of this.networks.keys()) {
      const isUsed = this.containers().some(
        (container) => container.state === "running" && container.networks.has(name),
      );
      if (!isUsed) this.networks.delete(name);
    }
  }

  /** Connects a container to the networks that replace its removed networks of the same names. */
  rejoin(idOrName: string): void {
    for (const [name, endpoint] of this.find(idOrName)?.networks ?? [])
      endpoint.joined = this.networks.get(name) ?? endpoint.joined;
  }

  disconnect(idOrName: string, network: string): void {
    const container = this.container(idOrName);
    if (container.networks.delete(network)) this.#containerEvent(container, "disconnect");
  }

  pause(idOrName: string): void {
    this.container(idOrName).state = "paused";
    this.#containerEvent(this.container(idOrName), "pause");
  }

  /** Changes the limits of a container, as `docker update` does. */
  update(
    idOrName: string,
    limits: { memoryBytes?: number | null; nanoCpus?: number | null },
  ): void {
    const container = this.container(idOrName);
    if (limits.memoryBytes !== undefined) container.memoryBytes = limits.memoryBytes;
    if (limits.nanoCpus !== undefined) container.nanoCpus = limits.nanoCpus;
    this.#containerEvent(container, "update");
  }

  /** Makes every probe of a container fail until it is started again. */
  makeUnhealthy(idOrName: string): void {
    this.container(idOrName).unhealthy = true;
  }

  /** Restarts the engine: every running container ends, as with restart policy "no". */
  restart(): void {
    this.shutDown();
    this.setReachable(false);
    this.setReachable(true);
  }

  subscribe(listener: (event: EngineEvent) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Resolves at the next change of a container's state or log, or when the signal aborts. */
  changed(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        this.#changed.delete(done);
        signal.removeEventListener("abort", done);
        resolve();
      };
      this.#changed.add(done);
      signal.addEventListener("abort", done, { once: true });
    });
  }

  observe(container: FakeContainer): ObservedContainer {
    return {
      id: container.id,
      name: container.name,
      labels: container.labels,
      image: container.spec.image,
      imageId: container.imageId,
      state: container.state,
      exitCode: container.exitCode,
      oomKilled: container.oomKilled,
      isPortTaken: /already allocated/.test(container.error ?? ""),
      error: container.error,
      createdAt: timestamp(container.createdMs),
      startedAt: timeOrNull(container.startedMs),
      finishedAt: timeOrNull(container.finishedMs),
      networks: [...container.networks.keys()].toSorted(),
      networkAddresses:
        container.state === "running"
          ? Object.fromEntries(
              [...container.networks.keys()].map((network) => [network, container.address]),
            )
          : {},
      reservedAddress: container.networks.has(container.spec.network)
        ? container.reservedAddress
        : null,
      memoryBytes: container.memoryBytes,
      nanoCpus: container.nanoCpus,
      addresses:
        container.state === "running"
          ? container.published
              .filter((publish) => publish.protocol === "tcp")
              .map((publish) => ({
                containerPort: publish.containerPort,
                address: `127.0.0.1:${publish.hostPort}`,
              }))
          : [],
      settings: {
        ...describeSettings(container.spec, container.image.defaults),
        aliases: Object.fromEntries(
          [...container.networks].map(([network, { aliases }]) => [network, aliases]),
        ),
        foreign: container.foreign,
      },
    };
  }

  #end(container: FakeContainer, exitCode: number, oom: boolean): void {
    container.cancelExit();
    container.state = "exited";
    container.exitCode = exitCode;
    container.oomKilled = oom;
    container.finishedMs = this.clock.now();
    container.published = [];
    if (oom) this.#containerEvent(container, "oom");
    this.#containerEvent(container, "die");
  }

  #containerEvent(container: FakeContainer, action: string): void {
    this.#wake();
    const instance = container.labels[INSTANCE];
    if (instance === undefined || !this.deliverEvents || !this.#reachable) return;
    const app = container.labels[APP] ?? "";
    this.#emit({ type: "container", action, id: container.id, app, instance });
  }

  #emit(event: EngineEvent): void {
    for (const listener of this.#listeners) listener(event);
  }

  #wake(): void {
    for (const done of this.#changed) done();
  }

  #nextId(kind: string): string {
    this.#ids += 1;
    return createHash("sha256").update(`${kind} ${this.#ids}`).digest("hex");
  }
}

export type EngineEvent = RuntimeEvent & { readonly instance?: string };

function findAddress({ reservedAddress }: NetworkEndpoint): string | null {
  if (reservedAddress === undefined) return null;
  return findReservedAddress(RESERVED_RANGE, reservedAddress) ?? null;
}

function timeOrNull(epochMs: number | null): string | null {
  return epochMs === null ? null : timestamp(epochMs);
}

export function nameClash(name: string): BerthError {
  return new BerthError(
    "name_clash",
    `the container name ${name} is in use by another container that Berth does not own`,
    { hint: `rename or remove the container: docker rm ${name}` },
  );
}
