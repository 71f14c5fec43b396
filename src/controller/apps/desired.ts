import { digestOf } from "../../base/canonical.ts";
import type { AppSpec, SecretReference } from "../../resources/app.ts";
import { type EffectiveApp, effectiveApp } from "../../resources/app-defaults.ts";
import { RESTARTED_AT, type Resource } from "../../resources/resource.ts";
import * as labels from "../labels.ts";
import type { ContainerSpec, Labels, MountSpec, PublishSpec } from "../runtime/port.ts";

/** Raised when what this file makes of a spec changes, so that containers of older versions are replaced. */
const CONTAINER_FORMAT = 1;

/** One version of an App, worked out as far as the engine needs it. Pure data: the plan compares it. */
export interface DesiredApp {
  readonly instance: string;
  readonly name: string;
  readonly generation: number;
  readonly app: EffectiveApp;
  readonly image: string;
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

export interface DesiredInput {
  readonly instance: string;
  readonly resource: Resource<"App">;
  /** The stored spec, or that of the revision that is being held. */
  readonly spec: AppSpec;
  readonly image: string;
  /** The value of each reference; every one has been found. */
  readonly reveal: (reference: SecretReference) => string;
  /** The loopback port of each replica; undefined where the app is not published so. */
  readonly loopbackPort: (replica: number) => number | undefined;
}

export function desiredApp(input: DesiredInput): DesiredApp {
  const { instance, resource, image } = input;
  const name = resource.metadata.name;
  const app = effectiveApp(input.spec);
  const env = Object.entries(app.env).map(
    ([key, value]) => `${key}=${typeof value === "string" ? value : input.reveal(value)}`,
  );
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
    env,
    network,
    aliases: [name],
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
  const restartedAt = resource.metadata.annotations[RESTARTED_AT] ?? null;
  const made = {
    format: CONTAINER_FORMAT,
    template,
    port: app.port ?? null,
    ports: app.ports,
    pullPolicy: app.pullPolicy,
  };
  const hash = digestOf({ ...made, restartedAt }).slice(0, 16);

  const containers = Array.from({ length: app.replicas }, (_, replica): ContainerSpec => {
    const loopback = input.loopbackPort(replica);
    return {
      ...template,
      name: containerName(instance, name, hash, replica),
      labels: {
        ...owned,
        [labels.GENERATION]: String(resource.metadata.generation),
        [labels.SPEC_HASH]: hash,
        [labels.REPLICA]: String(replica),
        [labels.ROLE]: "candidate",
        ...(loopback === undefined ? {} : { [labels.LOOPBACK_PORT]: String(loopback) }),
      },
      publish: publishOf(app, loopback),
    };
  });
  return {
    instance,
    name,
    generation: resource.metadata.generation,
    app,
    image,
    hash,
    version: digestOf(made).slice(0, 16),
    network,
    networkLabels: { [labels.INSTANCE]: instance },
    volumes,
    containers,
  };
}

/**
 * What makes one revision of an App: the parts of its spec that reach a container, with secrets as
 * references and without a restart's time, so that restarts and rotations make no new revision.
 */
export function revisionHash(spec: AppSpec): string {
  const {
    replicas: _replicas,
    running: _running,
    suspend: _suspend,
    domain: _domain,
    rollout: _rollout,
    restart: _restart,
    healthCheck: _health,
    dependsOn: _dependsOn,
    pullSecret: _pullSecret,
    ...container
  } = spec;
  return digestOf(container).slice(0, 16);
}

/** All apps of one instance share a network, on which each is reached under its name. */
export function networkName(instance: string): string {
  return `berth-${instance}`;
}

export function volumeName(instance: string, app: string, volume: string): string {
  return `berth-${instance}-${app}-${volume}`;
}

export function containerName(
  instance: string,
  app: string,
  hash: string,
  replica: number,
): string {
  return `berth-${instance}-${app}-${hash.slice(0, 8)}-${replica}`;
}

function publishOf(app: EffectiveApp, loopback: number | undefined): PublishSpec[] {
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
