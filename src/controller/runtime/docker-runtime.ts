import type { Clock } from "../../base/clock.ts";
import type { EngineInfo, EngineLocation } from "../engine-host.ts";
import { APP, INSTANCE, STACK } from "../labels.ts";
import type { DockerTls } from "./docker-address.ts";
import { buildImage } from "./docker-build.ts";
import * as ownImages from "./docker-built-images.ts";
import { DockerConnection } from "./docker-connection.ts";
import * as containers from "./docker-containers.ts";
import { EngineDisk } from "./docker-disk.ts";
import { connectNetwork } from "./docker-endpoints.ts";
import { watchEvents } from "./docker-events.ts";
import { execute } from "./docker-exec.ts";
import * as images from "./docker-images.ts";
import { numberAt } from "./docker-json.ts";
import * as leases from "./docker-leases.ts";
import { READ_LIMIT_MS } from "./docker-limits.ts";
import { readLogs } from "./docker-logs.ts";
import { NetworkSetup } from "./docker-network-setup.ts";
import * as networks from "./docker-networks.ts";
import { countConnections, listeningPorts } from "./docker-ports.ts";
import { Prober } from "./docker-probe.ts";
import { SettingsReader } from "./docker-settings.ts";
import { StackNetworkSetup } from "./docker-stack-networks.ts";
import { startContainer } from "./docker-start.ts";
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
} from "./port.ts";

export interface DockerRuntimeOptions {
  /** The engine's address in the format of DOCKER_HOST; undefined for the default socket. */
  readonly host: string | undefined;
  readonly clock: Clock;
  /** Certificates for an engine with TLS. */
  readonly tls?: DockerTls;
}

/**
 * The maximum number of containers whose Apps are remembered. When a container leaves a network, its App is looked up
 * among them.
 */
const APPS_KEPT_MAX = 5_000;

/** The runtime port for a Docker engine (20.10 or newer) or Podman's Docker API. */
export class DockerRuntime implements ContainerRuntime, AsyncDisposable {
  readonly #connection: DockerConnection;
  readonly #prober: Prober;
  readonly #settings: SettingsReader;
  readonly #networks: NetworkSetup;
  readonly #stackNetworks: StackNetworkSetup;
  readonly #disk: EngineDisk;
  readonly #apps = new Map<string, string>();

  /** Throws `invalid_request` for a malformed address. The connection is opened at the first call. */
  constructor(options: DockerRuntimeOptions) {
    this.#connection = new DockerConnection({
      host: options.host,
      clock: options.clock,
      tls: options.tls,
    });
    this.#prober = new Prober(this.#connection);
    this.#settings = new SettingsReader(this.#connection);
    this.#networks = new NetworkSetup(this.#connection);
    this.#stackNetworks = new StackNetworkSetup(this.#connection);
    this.#disk = new EngineDisk(this.#connection);
  }

  get location(): EngineLocation {
    return this.#connection.address.location;
  }

  async info(signal: AbortSignal): Promise<EngineInfo> {
    const facts = await this.#connection.call(
      "read the engine's facts",
      READ_LIMIT_MS,
      signal,
      (_, bound) => this.#connection.request({ method: "GET", path: "/info" }, bound),
    );
    const version = await this.#connection.version(signal);
    return {
      name: version.name,
      version: version.engine,
      apiVersion: version.api,
      os: version.os,
      arch: version.arch,
      cpus: numberAt(facts, "NCPU") ?? 0,
      memoryBytes: numberAt(facts, "MemTotal") ?? 0,
    };
  }

  ping(signal: AbortSignal): Promise<void> {
    return this.#connection.ping(signal);
  }

  async listContainers(
    filter: { readonly instance: string; readonly app?: string },
    signal: AbortSignal,
  ): Promise<ObservedContainer[]> {
    const found = await containers.listContainers(
      this.#connection,
      { inspect: (id) => this.#prober.inspect(id, signal), settings: this.#settings },
      filter,
      signal,
    );
    for (const container of found) this.#remember(container.id, container.labels);
    return found;
  }

  async createContainer(spec: ContainerSpec, signal: AbortSignal): Promise<string> {
    const address = this.#networks.findAddress(spec.network, spec.reservedAddress);
    const id = await containers.createContainer(this.#connection, spec, address, signal);
    this.#remember(id, spec.labels);
    return id;
  }

  startContainer(id: string, signal: AbortSignal): Promise<void> {
    this.#prober.forget(id);
    return startContainer(this.#connection, id, signal);
  }

  stopContainer(id: string, graceMs: number, signal: AbortSignal): Promise<void> {
    this.#prober.forget(id);
    return containers.stopContainer(this.#connection, id, graceMs, signal);
  }

  async removeContainer(id: string, signal: AbortSignal): Promise<void> {
    this.#prober.forget(id);
    await containers.removeContainer(this.#connection, id, signal);
    this.#apps.delete(id);
  }

  renameContainer(id: string, name: string, signal: AbortSignal): Promise<void> {
    return containers.renameContainer(this.#connection, id, name, signal);
  }

  connectNetwork(
    id: string,
    network: string,
    { aliases, reservedAddress }: NetworkEndpoint,
    signal: AbortSignal,
  ): Promise<void> {
    this.#prober.forget(id);
    const address = this.#networks.findAddress(network, reservedAddress);
    return connectNetwork(this.#connection, id, network, { aliases, address }, signal);
  }

  ensureNetwork(name: string, labels: Labels, signal: AbortSignal): Promise<void> {
    return this.#networks.ensure(name, labels, signal);
  }

  ensureStackNetwork(
    name: string,
    labels: Labels,
    pool: string,
    signal: AbortSignal,
  ): Promise<void> {
    return this.#stackNetworks.ensure(name, labels, pool, signal);
  }

  listStackNetworks(
    { instance }: { readonly instance: string },
    signal: AbortSignal,
  ): Promise<readonly ObservedNetwork[]> {
    return networks.listNetworks(this.#connection, [`${INSTANCE}=${instance}`, STACK], signal);
  }

  reservedRange(network: string, signal: AbortSignal): Promise<string | undefined> {
    return networks.reservedRange(this.#connection, network, signal);
  }

  networkSubnets(name: string, signal: AbortSignal): Promise<readonly string[]> {
    return networks.networkSubnets(this.#connection, name, signal);
  }

  hostGateway(network: string, signal: AbortSignal): Promise<string | undefined> {
    return networks.hostGateway(this.#connection, network, signal);
  }

  removeNetwork(name: string, signal: AbortSignal): Promise<void> {
    return networks.removeNetwork(this.#connection, name, signal);
  }

  ensureVolume(name: string, labels: Labels, signal: AbortSignal): Promise<void> {
    return networks.ensureVolume(this.#connection, name, labels, signal);
  }

  removeVolume(name: string, signal: AbortSignal): Promise<void> {
    return networks.removeVolume(this.#connection, name, signal);
  }

  listVolumes(
    filter: { readonly instance: string; readonly app?: string },
    signal: AbortSignal,
  ): Promise<ObservedVolume[]> {
    return networks.listVolumes(this.#connection, filter, signal);
  }

  createLease(instance: string, term: number, labels: Labels, signal: AbortSignal): Promise<void> {
    return leases.createLease(this.#connection, instance, term, labels, signal);
  }

  listLeases(instance: string, signal: AbortSignal): Promise<readonly ObservedLease[]> {
    return leases.listLeases(this.#connection, instance, signal);
  }

  removeLease(instance: string, term: number, signal: AbortSignal): Promise<void> {
    return leases.removeLease(this.#connection, instance, term, signal);
  }

  inspectImage(reference: string, signal: AbortSignal): Promise<ImageInfo | undefined> {
    const remember = (image: unknown) => this.#settings.remember(image);
    return images.inspectImage(this.#connection, reference, signal, remember);
  }

  pullImage(
    reference: string,
    auth: RegistryAuth | undefined,
    onProgress: (progress: PullProgress) => void,
    signal: AbortSignal,
    platform?: string,
  ): Promise<string | undefined> {
    return images.pullImage(this.#connection, reference, auth, onProgress, signal, platform);
  }

  buildImage(
    context: AsyncIterable<Uint8Array>,
    options: BuildImageOptions,
    onOutput: (line: BuildOutput) => void,
    signal: AbortSignal,
  ): Promise<{ readonly imageId: string; readonly bytes: number }> {
    return buildImage(this.#connection, context, options, onOutput, signal);
  }

  listImages(
    filter: { readonly instance: string },
    signal: AbortSignal,
  ): Promise<BuiltImageInfo[]> {
    return ownImages.listImages(this.#connection, filter, signal);
  }

  freeBytes(signal: AbortSignal): Promise<number | undefined> {
    return this.#disk.readFreeBytes(signal);
  }

  removeImage(reference: string, signal: AbortSignal): Promise<boolean> {
    return ownImages.removeImage(this.#connection, reference, signal);
  }

  logs(id: string, options: LogOptions, signal: AbortSignal): AsyncIterable<LogLine> {
    return readLogs(this.#connection, id, options, signal);
  }

  exec(
    id: string,
    command: readonly string[],
    timeoutMs: number,
    signal: AbortSignal,
  ): Promise<{ exitCode: number; output: string }> {
    return execute(this.#connection, id, command, timeoutMs, signal);
  }

  probe(
    id: string,
    probe: ProbeTarget,
    timeoutMs: number,
    signal: AbortSignal,
  ): Promise<ProbeResult> {
    return this.#prober.probe(id, probe, timeoutMs, signal);
  }

  listeningPorts(id: string, signal: AbortSignal): Promise<readonly number[] | undefined> {
    return listeningPorts(this.#connection, id, signal);
  }

  countConnections(id: string, port: number, signal: AbortSignal): Promise<number | undefined> {
    return countConnections(this.#connection, id, port, signal);
  }

  async *events(
    filter: { readonly instance: string },
    signal: AbortSignal,
  ): AsyncGenerator<RuntimeEvent> {
    const appOf = (id: string) => this.#apps.get(id);
    for await (const event of watchEvents(this.#connection, filter.instance, appOf, signal)) {
      this.#prober.forget(event.type === "container" ? event.id : undefined);
      yield event;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#connection.close();
  }

  #remember(id: string, labels: Labels): void {
    if (this.#apps.size >= APPS_KEPT_MAX) this.#apps.clear();
    this.#apps.set(id, labels[APP] ?? "");
  }
}
