import { hashJson } from "../../base/canonical-json.ts";
import { type EffectiveApp, resolveAppDefaults } from "../../resources/app-defaults.ts";
import type { AppSpec, SecretReference } from "../../resources/app-spec.ts";
import { RESTARTED_AT_ANNOTATION, type Resource } from "../../resources/resource.ts";
import { containerName, networkName, volumeName } from "../engine-names.ts";
import type { Ingress } from "../ingress/port.ts";
import * as labels from "../labels.ts";
import { MODELS_PORT } from "../models/container-listener.ts";
import type { ContainerSpec, Labels, MountSpec, PublishSpec } from "../runtime/port.ts";
import { buildModelSettings } from "./model-inputs.ts";
import { chooseStrategy, type Strategy } from "./rollout-strategy.ts";

/** Raised when what this file makes of a spec changes, so that containers of older versions are replaced. */
const CONTAINER_FORMAT = 2;

/**
 * How requests reach the containers. loopback: through a port of this machine that stays the App's
 * own. network: at their addresses on the instance's network. published: through a port that the engine picks for each.
 */
export type Exposure = "loopback" | "network" | "published";

/** One version of an App, worked out as far as the engine needs it. Pure data: the plan compares it. */
export interface DesiredApp {
  readonly instance: string;
  readonly name: string;
  readonly generation: number;
  readonly app: EffectiveApp;
  readonly image: string;
  /** Where the image comes from. */
  readonly origin: "registry" | "source";
  readonly strategy: Strategy;
  readonly exposure: Exposure;
  /** An ingress leads requests to the App. */
  readonly isRouted: boolean;
  /** Of all that makes a container; a change of anything else never replaces one. */
  readonly hash: string;
  /** The same without the time of a restart: what a person wrote, whichever time its containers were made. */
  readonly version: string;
  readonly network: string;
  readonly networkLabels: Labels;
  readonly volumes: readonly { readonly name: string; readonly labels: Labels }[];
  /** One for each replica, in order. */
  readonly containers: readonly ContainerSpec[];
}

export interface DesiredAppInput {
  readonly instance: string;
  readonly resource: Resource<"App">;
  /** The stored spec, or that of the revision that is being held. */
  readonly spec: AppSpec;
  readonly image: string;
  readonly ingress: Pick<Ingress, "mode" | "reachability">;
  /** The value of each reference; every one has been found. */
  readonly revealSecret: (reference: SecretReference) => string;
  /** The loopback port of each replica; asked only where the App is published so. */
  readonly loopbackPort: (replica: number, containerPort: number) => number;
  /** Where containers reach the models; without it, where they usually do. */
  readonly modelsPort?: number;
}

export function buildDesiredApp(input: DesiredAppInput): DesiredApp {
  const { instance, resource, image } = input;
  const name = resource.metadata.name;
  const app = resolveAppDefaults(input.spec);
  const origin = input.spec.source === undefined ? "registry" : "source";
  const env = Object.entries(app.env).map(
    ([key, value]) => `${key}=${typeof value === "string" ? value : input.revealSecret(value)}`,
  );
  // What is built from source is told where to listen, as on every platform that builds; an image
  // from a registry listens where it always does.
  if (origin === "source" && app.port !== undefined && !("PORT" in app.env))
    env.push(`PORT=${app.port}`);
  const { env: modelEnv, ...modelHosts } = buildModelSettings(app, input.modelsPort ?? MODELS_PORT);
  const network = networkName(instance);
  const owned = { [labels.INSTANCE]: instance, [labels.APP]: name };
  const volumes = app.volumes.flatMap((volume) =>
    "name" in volume
      ? [
          {
            name: volumeName(instance, name, volume.name),
            labels: { ...owned, [labels.VOLUME]: volume.name },
          },
        ]
      : [],
  );
  const template = {
    image,
    env: [...env, ...modelEnv],
    network,
    aliases: [name],
    ...modelHosts,
    mounts: app.volumes.map((volume): MountSpec => {
      const common = { path: volume.path, readOnly: volume.readOnly ?? false };
      return "name" in volume
        ? { type: "volume", volume: volumeName(instance, name, volume.name), ...common }
        : { type: "bind", hostPath: volume.hostPath, ...common };
    }),
    stopGraceMs: app.stopGraceMs,
    ...(app.entrypoint ? { entrypoint: app.entrypoint } : {}),
    ...(app.command ? { command: app.command } : {}),
    ...(app.user ? { user: app.user } : {}),
    ...(app.workingDir ? { workingDir: app.workingDir } : {}),
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
  };
  const hash = hashJson({ ...hashedSettings, restartedAt }).slice(0, 16);

  const containers = Array.from({ length: app.replicas }, (_, replica): ContainerSpec => {
    const loopback =
      app.port !== undefined && exposure === "loopback"
        ? input.loopbackPort(replica, app.port)
        : undefined;
    return {
      ...template,
      name: containerName(instance, name, hash, replica),
      labels: {
        ...owned,
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
  return {
    instance,
    name,
    generation: resource.metadata.generation,
    app,
    image,
    origin,
    strategy: chooseStrategy(app, hasIngress),
    exposure,
    isRouted: hasIngress && app.port !== undefined,
    hash,
    version: hashJson(hashedSettings).slice(0, 16),
    network,
    networkLabels: { [labels.INSTANCE]: instance },
    volumes,
    containers,
  };
}

const ENGINE_CHOSEN_PORT = 0;

function chooseExposure({ mode, reachability: reach }: DesiredAppInput["ingress"]): Exposure {
  if (mode === "off") return "loopback";
  return reach === "address" ? "network" : "published";
}

/**
 * What makes one revision of an App: the parts of its spec that reach a container, with secrets as
 * references and without a restart's time, so that restarts and rotations make no new revision. The same
 * source built from another commit is another revision, which its image tells.
 */
export function revisionHash(spec: AppSpec, image: string | null): string {
  const {
    replicas: _replicas,
    running: _running,
    suspend: _suspend,
    domain: _domain,
    ingress: _ingress,
    rollout: _rollout,
    restart: _restart,
    healthCheck: _health,
    dependsOn: _dependsOn,
    pullSecret: _pullSecret,
    models = [],
    ...container
  } = spec;
  const built = spec.source === undefined ? {} : { image };
  const modelSettings =
    models.length === 0
      ? {}
      : { models: buildModelSettings(resolveAppDefaults(spec), MODELS_PORT) };
  return hashJson({ ...container, ...built, ...modelSettings }).slice(0, 16);
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
