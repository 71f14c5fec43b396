import { dirname, join } from "node:path";
import { writeAtomically } from "../../base/atomic-file.ts";
import { hashJson } from "../../base/canonical-json.ts";
import { BerthError, getErrorMessage } from "../../base/errors.ts";
import { findDifferences } from "../container-differences.ts";
import type { MountSpec } from "../container-settings.ts";
import { networkName } from "../engine-names.ts";
import { COMPONENT, INSTANCE, SPEC_HASH } from "../labels.ts";
import type {
  ContainerSpec,
  ImageRuntime,
  ObservedContainer,
  WorkloadRuntime,
} from "../runtime/port.ts";
import type { CaddyConfig } from "./caddy-config.ts";
import { type CaddyHost, caddyEnvironment, type IngressPaths } from "./caddy-host.ts";
import { parseLastError } from "./caddy-process.ts";
import { parseCaddyVersion } from "./caddy-version.ts";
import { portTakenError } from "./port-check.ts";
import { getTableFolder } from "./table-routes.ts";

const COMMAND_LIMIT_MS = 30_000;
const STOP_GRACE_MS = 10_000;

export interface CaddyContainerOptions {
  readonly runtime: WorkloadRuntime & ImageRuntime;
  readonly instance: string;
  readonly image: string;
  readonly paths: IngressPaths;
  readonly httpPort: number | undefined;
  readonly httpsPort: number | undefined;
  /** The `uid:gid` that the owner of the ingress folder has inside containers; undefined for root. */
  readonly user: string | undefined;
}

/**
 * Caddy as a container on the apps' network. The folder of the ingress is mounted under its own path, so that
 * table, configuration and admin socket are the same as for a process; the table is mounted read-only.
 */
export class CaddyContainer implements CaddyHost {
  readonly mode = "container";
  onExit: () => void = () => {};
  readonly #options: CaddyContainerOptions;

  constructor(options: CaddyContainerOptions) {
    this.#options = options;
  }

  async version(signal: AbortSignal): Promise<string | undefined> {
    const { output } = (await this.#exec(["caddy", "version"], signal)) ?? {};
    return output === undefined ? undefined : parseCaddyVersion(output);
  }

  async isRunning(signal: AbortSignal): Promise<boolean> {
    return (await this.#find(signal))?.state === "running";
  }

  async isUpToDate(signal: AbortSignal): Promise<boolean> {
    const there = await this.#find(signal);
    return there === undefined || isMadeFrom(there, this.#spec());
  }

  /** Does nothing, because the engine reports taken ports when the container starts. */
  assertPortsAvailable(): Promise<void> {
    return Promise.resolve();
  }

  async start(config: CaddyConfig, signal: AbortSignal): Promise<void> {
    const { runtime, instance, image, paths } = this.#options;
    const spec = this.#spec();
    const there = await this.#find(signal);
    if (there?.state === "running" && isMadeFrom(there, spec)) return;
    // A container that has exited is replaced instead of started again: its network may have been replaced, and the log
    // of the new container must not begin with the old output.
    if (there) await runtime.removeContainer(there.id, signal);
    if ((await runtime.inspectImage(image, signal)) === undefined)
      await runtime.pullImage(image, undefined, () => {}, signal);
    await runtime.ensureNetwork(networkName(instance), { [INSTANCE]: instance }, signal);
    await writeAtomically(paths.configFile, JSON.stringify(config));
    const id = await runtime.createContainer(spec, signal);
    try {
      await runtime.startContainer(id, signal);
    } catch (error) {
      if (error instanceof BerthError && error.code === "port_taken")
        throw this.#toPortTakenError(error);
      throw error;
    }
  }

  async validate(config: CaddyConfig, signal: AbortSignal): Promise<string | undefined> {
    const file = join(this.#options.paths.folder, "check.json");
    await writeAtomically(file, JSON.stringify(config));
    const result = await this.#exec(["caddy", "validate", "--config", file], signal);
    return result === undefined || result.exitCode === 0
      ? undefined
      : parseLastError(result.output);
  }

  async stop(signal: AbortSignal): Promise<void> {
    const { runtime } = this.#options;
    const there = await this.#find(signal);
    if (!there) return;
    await runtime.stopContainer(there.id, STOP_GRACE_MS, signal);
    await runtime.removeContainer(there.id, signal);
  }

  #spec(): ContainerSpec {
    const { instance, image, paths, httpPort, httpsPort, user } = this.#options;
    const { folder, adminSocket, configFile } = paths;
    const ports = [httpPort, httpsPort].filter((port) => port !== undefined);
    const spec = {
      name: `berth-${instance}-ingress`,
      image,
      env: Object.entries(caddyEnvironment(folder)).map(([name, value]) => `${name}=${value}`),
      entrypoint: ["caddy"],
      command: ["run", "--config", configFile],
      network: networkName(instance),
      aliases: [],
      mounts: [
        bindMount(folder, false),
        bindMount(getTableFolder(folder), true),
        ...(dirname(adminSocket) === folder ? [] : [bindMount(dirname(adminSocket), false)]),
      ],
      publish: ports.map((port) => ({
        containerPort: port,
        protocol: "tcp" as const,
        hostAddress: "",
        hostPort: port,
      })),
      stopGraceMs: STOP_GRACE_MS,
      ...(user === undefined ? {} : { user }),
    };
    return {
      ...spec,
      labels: {
        [INSTANCE]: instance,
        [COMPONENT]: "ingress",
        [SPEC_HASH]: hashJson(spec).slice(0, 16),
      },
    };
  }

  async #find(signal: AbortSignal): Promise<ObservedContainer | undefined> {
    const { runtime, instance } = this.#options;
    const all = await runtime.listContainers({ instance }, signal);
    return all.find(({ labels }) => labels[COMPONENT] === "ingress");
  }

  /**
   * Runs a command in the container. Returns undefined if the container is not running, or was created by another
   * program.
   */
  async #exec(
    command: readonly string[],
    signal: AbortSignal,
  ): Promise<{ exitCode: number; output: string } | undefined> {
    const there = await this.#find(signal);
    if (there?.state !== "running" || !isMadeFrom(there, this.#spec())) return undefined;
    return this.#options.runtime.exec(there.id, command, COMMAND_LIMIT_MS, signal);
  }

  #toPortTakenError(error: BerthError): BerthError {
    const { httpPort, httpsPort } = this.#options;
    const isHttps =
      httpPort === undefined ||
      (httpsPort !== undefined && new RegExp(`\\b${httpsPort}\\b`).test(getErrorMessage(error)));
    return portTakenError(
      (isHttps ? httpsPort : httpPort) ?? 0,
      isHttps ? "--https-port" : "--http-port",
    );
  }
}

function bindMount(path: string, readOnly: boolean): MountSpec {
  return { type: "bind", hostPath: path, path, readOnly };
}

function isMadeFrom(container: ObservedContainer, spec: ContainerSpec): boolean {
  const isOfSpec = container.labels[SPEC_HASH] === spec.labels[SPEC_HASH];
  return isOfSpec && findDifferences(container, spec).length === 0;
}
