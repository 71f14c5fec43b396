import { deepEqual, hashJson } from "../../base/canonical-json.ts";
import { NETWORK_POOL } from "../../base/default-network-pool.ts";
import { type EffectiveApp, resolveAppDefaults } from "../../resources/app-defaults.ts";
import type { AppSpec, SecretReference } from "../../resources/app-spec.ts";
import { NO_DOMAIN } from "../../resources/field-schemas.ts";
import { RESTARTED_AT_ANNOTATION, type Resource } from "../../resources/resource.ts";
import { getServiceName, getStack } from "../../resources/stack.ts";
import {
  type MountSpec,
  NO_RESTRICTIONS,
  type PublishSpec,
  type Restrictions,
} from "../container-settings.ts";
import {
  containerName,
  networkName,
  sharedVolumeName,
  stackNetworkName,
  volumeName,
} from "../engine-names.ts";
import type { Ingress } from "../ingress/port.ts";
import * as labels from "../labels.ts";
import { MODELS_PORT } from "../models/container-listener.ts";
import type { ContainerSpec, Labels } from "../runtime/port.ts";
import { type AppFileSpec, buildFiles } from "./app-files.ts";
import { type AppFolderSpec, buildFolder } from "./app-folders.ts";
import type { VersionImage } from "./image-pin.ts";
import { buildModelSettings } from "./model-inputs.ts";
import { chooseStrategy, type Strategy } from "./rollout-strategy.ts";

/**
 * A number that is increased when Berth gives other settings to the containers of the same spec. A rollout then
 * replaces the existing containers. Otherwise they would look as if another program had changed them
 * (`findDifferences`).
 */
const CONTAINER_FORMAT = 2;

/**
 * The way in which requests reach the containers. loopback: through a port of this machine that is leased to the App.
 * network: at the containers' addresses on the instance's network. published: through a port that the engine chooses
 * for each container.
 */
export type Exposure = "loopback" | "network" | "published";

/** One version of an App, with all data that the engine needs to run it. */
export interface DesiredApp {
  readonly instance: string;
  readonly name: string;
  readonly generation: number;
  readonly app: EffectiveApp;
  readonly image: string;
  /** The engine's id of the image; null until `image` has been resolved. Without an id, no container is created. */
  readonly imageId: string | null;
  /** The digest of the image in its registry; null if no registry is known to have it. */
  readonly digest: string | null;
  /** The origin of the image: `registry` if it is pulled, `source` if it is built from source. */
  readonly origin: "registry" | "source";
  readonly strategy: Strategy;
  readonly exposure: Exposure;
  /** True if an ingress routes requests to the App. */
  readonly isRouted: boolean;
  /** A hash of all settings of the containers. Containers are replaced only if this hash changes. */
  readonly hash: string;
  /**
   * A hash of the container settings that result from the spec. It omits the time of a requested restart, so that a
   * restart makes no new version.
   */
  readonly version: string;
  /** The time of the last restart that the user requested; null if there was none. */
  readonly restartedAt: string | null;
  readonly network: string;
  readonly networkLabels: Labels;
  /** The network of the App's stack; null for an App without a stack. */
  readonly stackNetwork: StackNetwork | null;
  readonly volumes: readonly AppVolumeSpec[];
  /** The folders that the containers mount. They are made before a container starts. */
  readonly folders: readonly AppFolderSpec[];
  /** The files that the containers mount. They are written before a container starts. */
  readonly files: readonly AppFileSpec[];
  /** The specs of the containers, one for each replica, in order. */
  readonly containers: readonly ContainerSpec[];
  /**
   * The pair of addresses that is reserved for each replica, in order. The container specs and `hash` do not contain
   * addresses: a plan chooses one of the pair when it creates a container.
   */
  readonly addressPairs: readonly (number | undefined)[];
}

/** A volume of the engine that the containers mount. */
export interface AppVolumeSpec {
  readonly name: string;
  readonly labels: Labels;
  /** The stack that owns the volume; undefined if the App does. */
  readonly stack: string | undefined;
}

/** A network that the Apps of a stack share, in addition to the network of the instance. */
export interface StackNetwork {
  readonly network: string;
  readonly labels: Labels;
  /** The names by which other Apps reach the App in this network. */
  readonly aliases: readonly string[];
  /** The IPv4 range, such as 10.213.0.0/16, from which the network gets a subnet. */
  readonly pool: string;
}

export interface DesiredAppInput {
  readonly instance: string;
  readonly resource: Resource<"App">;
  /** The stored spec, or the spec of the revision that runs instead. */
  readonly spec: AppSpec;
  readonly image: VersionImage;
  readonly ingress: Pick<Ingress, "mode" | "reachability">;
  /** Returns the value of a Secret reference. The caller has checked that the Secret exists. */
  readonly revealSecret: (reference: SecretReference) => string;
  /** Returns the loopback port of a replica; called only if the exposure is loopback. */
  readonly loopbackPort: (replica: number, containerPort: number) => number;
  /**
   * Returns the pair of addresses that is reserved for a replica; called only if the ingress reaches containers at
   * their addresses. If this function is absent, the engine chooses all addresses.
   */
  readonly addressPair?: (replica: number) => number | undefined;
  /**
   * The data directory, with the files and folders of Apps; undefined if the engine cannot mount it. The App then gets
   * no files and folders.
   */
  readonly dataDir?: string | undefined;
  /** The IPv4 range from which the networks of stacks get their subnets; default: NETWORK_POOL. */
  readonly networkPool?: string;
  /** The port at which containers reach the models; default: MODELS_PORT. */
  readonly modelsPort?: number;
}

export function buildDesiredApp(input: DesiredAppInput): DesiredApp {
  const { instance, resource } = input;
  const { reference: image, id: imageId, digest } = input.image;
  const name = resource.metadata.name;
  const app = resolveAppDefaults(input.spec);
  const origin = input.spec.source === undefined ? "registry" : "source";
  const env = Object.entries(app.env).map(
    ([key, value]) => `${key}=${typeof value === "string" ? value : input.revealSecret(value)}`,
  );
  // An app that is built from source gets the variable PORT, as on other platforms that build apps. An image from a
  // registry defines its port itself.
  if (origin === "source" && app.port !== undefined && !("PORT" in app.env))
    env.push(`PORT=${app.port}`);
  const { env: modelEnv, ...modelHosts } = buildModelSettings(app, input.modelsPort ?? MODELS_PORT);
  const network = networkName(instance);
  const stackNetwork = buildStackNetwork(input, app.aliases);
  const owned = { [labels.INSTANCE]: instance, [labels.APP]: name };
  const stack = getStack(resource.metadata);
  const volumes = app.volumes.flatMap((volume) =>
    "name" in volume ? [buildVolume(instance, name, stack, volume)] : [],
  );
  const { dataDir } = input;
  const folders =
    dataDir === undefined
      ? []
      : app.folders.map((folder) => ({ ...folder, ...buildFolder(dataDir, name, stack, folder) }));
  const files = buildFiles(dataDir, name, app.files, input.revealSecret);
  const restrictions = { ...app.security, tmpfs: app.tmpfs };
  const template = {
    image,
    ...(imageId === null ? {} : { imageId }),
    env: [...env, ...modelEnv],
    network,
    aliases: [name],
    ...modelHosts,
    mounts: [
      ...app.volumes.map((volume): MountSpec => {
        const common = { path: volume.path, readOnly: volume.readOnly ?? false };
        return "name" in volume
          ? { type: "volume", volume: buildVolume(instance, name, stack, volume).name, ...common }
          : { type: "bind", hostPath: volume.hostPath, ...common };
      }),
      ...folders.map(
        ({ hostPath, path, readOnly = false }): MountSpec => ({
          type: "bind",
          hostPath,
          path,
          readOnly,
        }),
      ),
      ...files.map(
        ({ hostPath, path }): MountSpec => ({
          type: "bind",
          hostPath,
          path,
          readOnly: true,
        }),
      ),
    ],
    stopGraceMs: app.stopGraceMs,
    ...(app.entrypoint ? { entrypoint: app.entrypoint } : {}),
    ...(app.command ? { command: app.command } : {}),
    ...(app.user ? { user: app.user } : {}),
    ...(app.workingDir ? { workingDir: app.workingDir } : {}),
    // Settings that an App does not have are left out, so that they do not change the hashes of Apps without them.
    ...(hasRestrictions(restrictions) && { restrictions }),
    ...(app.hostname !== undefined && { hostname: app.hostname }),
    ...(app.platform !== undefined && { platform: app.platform }),
    ...(app.ulimits.length > 0 && { ulimits: app.ulimits }),
    ...(app.shmBytes !== undefined && { shmBytes: app.shmBytes }),
    ...(app.memoryBytes === undefined ? {} : { memoryBytes: app.memoryBytes }),
    ...(app.nanoCpus === undefined ? {} : { nanoCpus: app.nanoCpus }),
  };
  const restartedAt = resource.metadata.annotations[RESTARTED_AT_ANNOTATION] ?? null;
  const hasIngress = input.ingress.mode !== "off";
  const exposure = chooseExposure(input.ingress);
  const hashedSettings = {
    format: CONTAINER_FORMAT,
    exposure,
    template,
    port: app.port ?? null,
    ports: app.ports,
    pullPolicy: app.pullPolicy,
    ...(stackNetwork && { stack: [stackNetwork.network, stackNetwork.aliases] }),
  };
  const hash = hashJson({ ...hashedSettings, restartedAt }).slice(0, 16);

  const furtherNetworks = stackNetwork && [
    { network: stackNetwork.network, aliases: stackNetwork.aliases },
  ];
  const containers = Array.from({ length: app.replicas }, (_, replica): ContainerSpec => {
    const loopback =
      app.port !== undefined && exposure === "loopback"
        ? input.loopbackPort(replica, app.port)
        : undefined;
    return {
      ...template,
      ...(furtherNetworks && { furtherNetworks }),
      name: containerName(instance, name, hash, replica),
      labels: {
        ...owned,
        ...(stackNetwork && { [labels.STACK]: stackNetwork.labels[labels.STACK] ?? "" }),
        [labels.GENERATION]: String(resource.metadata.generation),
        [labels.SPEC_HASH]: hash,
        [labels.REPLICA]: String(replica),
        [labels.ROLE]: "candidate",
        ...(app.port === undefined ? {} : { [labels.PORT]: String(app.port) }),
        ...(loopback === undefined ? {} : { [labels.LOOPBACK_PORT]: String(loopback) }),
      },
      publish: buildPublishSpecs(app, exposure === "published" ? ENGINE_CHOSEN_PORT : loopback),
    };
  });
  const isRouted = hasIngress && app.port !== undefined && app.domain !== NO_DOMAIN;
  const hasPairs = isRouted && exposure === "network";
  return {
    instance,
    name,
    generation: resource.metadata.generation,
    app,
    image,
    imageId,
    digest,
    origin,
    strategy: chooseStrategy(app, hasIngress),
    exposure,
    isRouted,
    hash,
    version: hashJson(hashedSettings).slice(0, 16),
    restartedAt,
    network,
    networkLabels: { [labels.INSTANCE]: instance },
    stackNetwork,
    volumes: uniqueByName(volumes),
    folders: uniqueByName(folders),
    files,
    containers,
    addressPairs: hasPairs ? containers.map((_, replica) => input.addressPair?.(replica)) : [],
  };
}

function buildVolume(
  instance: string,
  app: string,
  stack: string | undefined,
  { name, shared }: { readonly name: string; readonly shared?: boolean },
): AppVolumeSpec {
  const common = { [labels.INSTANCE]: instance, [labels.VOLUME]: name };
  if (shared !== true || stack === undefined)
    return {
      name: volumeName(instance, app, name),
      labels: { ...common, [labels.APP]: app },
      stack: undefined,
    };
  return {
    name: sharedVolumeName(instance, stack, name),
    labels: { ...common, [labels.STACK]: stack },
    stack,
  };
}

/** Leaves out repetitions of what the containers mount at several paths. */
function uniqueByName<T extends { readonly name: string }>(items: readonly T[]): readonly T[] {
  return [...new Map(items.map((item) => [item.name, item])).values()];
}

/** In the network of its stack, an App has its own name, the name of its service, and the aliases of its spec. */
function buildStackNetwork(
  { instance, resource: { metadata }, networkPool }: DesiredAppInput,
  aliases: readonly string[],
): StackNetwork | null {
  const stack = getStack(metadata);
  if (stack === undefined) return null;
  return {
    network: stackNetworkName(instance, stack),
    labels: { [labels.INSTANCE]: instance, [labels.STACK]: stack },
    aliases: [...new Set([metadata.name, getServiceName(metadata.name, stack), ...aliases])],
    pool: networkPool ?? NETWORK_POOL,
  };
}

const hasRestrictions = (restrictions: Restrictions) => !deepEqual(restrictions, NO_RESTRICTIONS);

const ENGINE_CHOSEN_PORT = 0;

function chooseExposure({ mode, reachability: reach }: DesiredAppInput["ingress"]): Exposure {
  if (mode === "off") return "loopback";
  return reach === "address" ? "network" : "published";
}

function buildPublishSpecs(app: EffectiveApp, loopback: number | undefined): PublishSpec[] {
  const published = app.ports.map(
    (port): PublishSpec => ({
      containerPort: port.container,
      protocol: port.protocol,
      hostAddress: port.address,
      hostPort: port.host,
    }),
  );
  if (app.port === undefined || loopback === undefined) return published;
  return [
    { containerPort: app.port, protocol: "tcp", hostAddress: "127.0.0.1", hostPort: loopback },
    ...published,
  ];
}
