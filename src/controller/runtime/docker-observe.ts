import type { ContainerInspectInfo } from "dockerode";
import { timestamp } from "../../base/clock.ts";
import type { ContainerSettings } from "../container-settings.ts";
import { IMAGE_REFERENCE } from "../labels.ts";
import { cleanEngineText, isPortTakenError } from "./docker-errors.ts";
import { textAt } from "./docker-json.ts";
import type { ContainerState, ObservedContainer } from "./port.ts";

/** Maps the container states that engines report. Podman has more of them than Docker. */
const states: Readonly<Record<string, ContainerState>> = {
  created: "created",
  configured: "created",
  initialized: "created",
  running: "running",
  stopping: "running",
  paused: "paused",
  restarting: "restarting",
  removing: "removing",
  exited: "exited",
  stopped: "exited",
  dead: "dead",
};

/** Converts the engine's inspection of a container. `engineHost` is undefined for an engine of this machine. */
export function toObservedContainer(
  inspected: ContainerInspectInfo,
  engineHost: string | undefined,
  settings: ContainerSettings | undefined,
): ObservedContainer {
  const state = isStuck(inspected) ? "dead" : (states[inspected.State.Status] ?? "dead");
  const ended = state === "exited" || state === "dead" || state === "removing";
  return {
    id: inspected.Id,
    name: inspected.Name.replace(/^\//, ""),
    labels: inspected.Config.Labels ?? {},
    image: inspected.Config.Labels?.[IMAGE_REFERENCE] ?? inspected.Config.Image,
    imageId: inspected.Image,
    state,
    exitCode: ended ? inspected.State.ExitCode : null,
    oomKilled: inspected.State.OOMKilled,
    isPortTaken: isPortTakenError(inspected.State.Error),
    error: inspected.State.Error ? cleanEngineText(inspected.State.Error) : null,
    createdAt: parseTime(inspected.Created) ?? timestamp(0),
    startedAt: parseTime(inspected.State.StartedAt),
    finishedAt: state === "running" ? null : parseTime(inspected.State.FinishedAt),
    networks: Object.keys(inspected.NetworkSettings.Networks ?? {}).toSorted(),
    networkAddresses: readNetworkAddresses(inspected),
    reservedAddress: readReservedAddress(inspected),
    memoryBytes: inspected.HostConfig.Memory || null,
    nanoCpus: inspected.HostConfig.NanoCpus || null,
    addresses: readPublishedAddresses(inspected, engineHost),
    settings,
  };
}

/**
 * Detects a container that can never be started again. If an engine exits during a start, the container's id stays in
 * use at containerd, and every later start fails in one of two ways. A new container with another id can be started.
 */
function isStuck({ Id: id, State: { Status, Error: error } }: ContainerInspectInfo): boolean {
  if (Status !== "exited" && Status !== "created") return false;
  return (
    (error ?? "").includes(`task ${id}: already exists`) ||
    /^id already in use(?:: unknown)?$/.test(error ?? "")
  );
}

function readNetworkAddresses(inspected: ContainerInspectInfo): Record<string, string> {
  const found: Record<string, string> = {};
  for (const [network, item] of Object.entries(inspected.NetworkSettings.Networks ?? {})) {
    const address = item.IPAddress || item.GlobalIPv6Address;
    if (address) found[network] = address;
  }
  return found;
}

function readReservedAddress({ NetworkSettings, HostConfig }: ContainerInspectInfo): string | null {
  const endpoint: unknown = NetworkSettings.Networks?.[HostConfig.NetworkMode ?? ""];
  return textAt(endpoint, "IPAMConfig", "IPv4Address") || null;
}

/** Returns one address of this machine for each published TCP port. IPv4 is preferred to IPv6. */
export function readPublishedAddresses(
  inspected: ContainerInspectInfo,
  engineHost: string | undefined,
): { containerPort: number; address: string }[] {
  const found: { containerPort: number; address: string }[] = [];
  for (const [key, bindings] of Object.entries(inspected.NetworkSettings.Ports ?? {})) {
    const [port, protocol] = key.split("/");
    if (protocol !== "tcp" || !bindings) continue;
    const binding = bindings.find((item) => !item.HostIp?.includes(":")) ?? bindings[0];
    if (!binding?.HostPort) continue;
    found.push({
      containerPort: Number(port),
      address: `${formatHost(binding.HostIp, engineHost)}:${binding.HostPort}`,
    });
  }
  return found.toSorted((a, b) => a.containerPort - b.containerPort);
}

function formatHost(hostIp: string | undefined, engineHost: string | undefined): string {
  const any = !hostIp || hostIp === "0.0.0.0" || hostIp === "::";
  const host = any ? (engineHost ?? (hostIp === "::" ? "::1" : "127.0.0.1")) : hostIp;
  return host.includes(":") ? `[${host}]` : host;
}

/** Parses a time of the engine, which writes year 1 for a missing time. */
function parseTime(text: string | undefined): string | null {
  const epochMs = Date.parse(text ?? "");
  return Number.isNaN(epochMs) || epochMs <= 0 ? null : timestamp(epochMs);
}
