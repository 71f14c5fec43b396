import { request } from "node:http";
import { BlockList, connect } from "node:net";
import { networkInterfaces } from "node:os";
import type { ContainerInspectInfo } from "dockerode";
import { BerthError, getErrorMessage, NotFoundError } from "../../base/errors.ts";
import type { DockerConnection } from "./docker-connection.ts";
import { getEngineHost, inspectContainer } from "./docker-containers.ts";
import { execute } from "./docker-exec.ts";
import { getErrorCode } from "./docker-json.ts";
import { readPublishedAddresses } from "./docker-observe.ts";
import type { ProbeResult, ProbeTarget } from "./port.ts";

/** The addresses of a container: its own addresses, and its published addresses. */
interface ContainerEndpoints {
  readonly ips: readonly string[];
  /**
   * Returns the first of the container's own addresses that this machine can reach. The address is looked up at the
   * first probe, because the lookup may take milliseconds, and most inspections precede no probe.
   */
  readonly findDirect: () => string | undefined;
  readonly published: readonly { readonly containerPort: number; readonly address: string }[];
}

/**
 * The time for which an address is cached, so that probing hundreds of apps does not inspect hundreds of containers.
 * (At an interval of 10 s, inspections were most of Berth's idle work.) Events and Berth's own calls invalidate the
 * address earlier, because another container may get it. Each listing of the containers inspects them and replaces the
 * addresses, so the resync once a minute corrects an address whose event was lost.
 */
const ENDPOINTS_TTL_MS = 300_000;
const ENDPOINTS_MAX = 2_000;
/**
 * A failed probe counts only if Berth read the container's address at most this long before; otherwise Berth reads the
 * address again and repeats the probe. A shorter time would add an inspection to most probes of a starting container,
 * which is probed many times in a second.
 */
const FRESH_MS = 1_000;

/** Probes containers. Implements `WorkloadRuntime.probe`. */
export class Prober {
  readonly #connection: DockerConnection;
  readonly #endpoints = new Map<
    string,
    { readonly reach: ContainerEndpoints; readonly sinceMs: number }
  >();
  /**
   * The inspections in progress. If `forget` invalidates a container's address during its inspection, the result may be
   * outdated and is not cached.
   */
  readonly #inspections = new Set<{ readonly id: string; isValid: boolean }>();

  constructor(connection: DockerConnection) {
    this.#connection = connection;
  }

  /** Invalidates the address of the container `id`, or the addresses of all containers if `id` is undefined. */
  forget(id?: string): void {
    if (id === undefined) this.#endpoints.clear();
    else this.#endpoints.delete(id);
    for (const inspection of this.#inspections)
      if (id === undefined || inspection.id === id) inspection.isValid = false;
  }

  /**
   * Inspects a container, and caches its addresses for the next probe. Returns undefined if the container does not
   * exist.
   */
  async inspect(id: string, signal: AbortSignal): Promise<ContainerInspectInfo | undefined> {
    const inspection = { id, isValid: true };
    this.#inspections.add(inspection);
    try {
      const inspected = await inspectContainer(this.#connection, id, signal);
      if (inspection.isValid) this.#cache(id, inspected);
      return inspected;
    } finally {
      this.#inspections.delete(inspection);
    }
  }

  async probe(
    id: string,
    target: ProbeTarget,
    timeoutMs: number,
    signal: AbortSignal,
  ): Promise<ProbeResult> {
    if (target.type === "command")
      return probeCommand(this.#connection, id, target.command, timeoutMs, signal);
    const known = this.#endpoints.get(id);
    const ageMs = this.#connection.clock.now() - (known?.sinceMs ?? 0);
    if (known && ageMs < ENDPOINTS_TTL_MS) {
      const result = await probeAt(known.reach, target, timeoutMs, signal);
      if (result.healthy || ageMs < FRESH_MS) return result;
      // The failure does not count yet: the container may have exited, or its address may have changed. The address is
      // read again, and probed.
      this.forget(id);
    }
    const reach = findEndpoints(await this.inspect(id, signal), this.#connection);
    if (!reach) return { healthy: false, message: "the container is not running" };
    return probeAt(reach, target, timeoutMs, signal);
  }

  #cache(id: string, inspected: ContainerInspectInfo | undefined): void {
    const reach = findEndpoints(inspected, this.#connection);
    this.#endpoints.delete(id);
    if (!reach) return;
    if (this.#endpoints.size >= ENDPOINTS_MAX) this.#endpoints.clear();
    this.#endpoints.set(id, { reach, sinceMs: this.#connection.clock.now() });
  }
}

function probeAt(
  endpoints: ContainerEndpoints,
  target: Exclude<ProbeTarget, { type: "command" }>,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<ProbeResult> | ProbeResult {
  const address = chooseAddress(endpoints, target.port);
  if (!address)
    return {
      healthy: false,
      message: `port ${target.port} is not reachable from this machine: it is not published`,
    };
  return target.type === "tcp"
    ? probeTcp(address, target.port, timeoutMs, signal)
    : probeHttp(address, target, timeoutMs, signal);
}

/** Returns the addresses of a container; undefined if it does not run. */
function findEndpoints(
  inspected: ContainerInspectInfo | undefined,
  connection: DockerConnection,
): ContainerEndpoints | undefined {
  if (!inspected?.State.Running || inspected.State.Paused) return undefined;
  const networks = Object.values(inspected.NetworkSettings.Networks ?? {});
  const ips = networks.map((item) => item.IPAddress || item.GlobalIPv6Address).filter(Boolean);
  const isNear = connection.address.location === "this-machine";
  let direct: { readonly address: string | undefined } | undefined;
  return {
    ips,
    findDirect: () => {
      direct ??= { address: isNear ? ips.find(isLocalAddress) : undefined };
      return direct.address;
    },
    published: readPublishedAddresses(inspected, getEngineHost(connection)),
  };
}

/**
 * The subnets of this machine. Reading them takes milliseconds with hundreds of containers, so they are read again
 * only for an unknown address.
 */
let subnets = new BlockList();

function isLocalAddress(ip: string): boolean {
  const family = ip.includes(":") ? "ipv6" : "ipv4";
  if (subnets.check(ip, family)) return true;
  subnets = listLocalSubnets();
  return subnets.check(ip, family);
}

/**
 * Returns the subnets of this machine. This machine cannot reach a container whose address is outside of them, such as
 * a container of a rootless engine, or of an engine in a virtual machine.
 */
function listLocalSubnets(): BlockList {
  const found = new BlockList();
  for (const list of Object.values(networkInterfaces())) {
    for (const { cidr, family, internal } of list ?? []) {
      if (!cidr || internal) continue;
      const [address, prefix] = cidr.split("/");
      found.addSubnet(address ?? "", Number(prefix), family === "IPv6" ? "ipv6" : "ipv4");
    }
  }
  return found;
}

interface Address {
  readonly host: string;
  readonly port: number;
}

/**
 * Chooses the address to probe. It prefers the container's own address, because a published port is answered by the
 * engine's proxy, not by the app.
 */
function chooseAddress(endpoints: ContainerEndpoints, port: number): Address | undefined {
  const direct = endpoints.findDirect();
  if (direct) return { host: direct, port };
  const published = endpoints.published.find((item) => item.containerPort === port);
  if (published) {
    const colon = published.address.lastIndexOf(":");
    return {
      host: published.address.slice(0, colon).replace(/^\[|\]$/g, ""),
      port: Number(published.address.slice(colon + 1)),
    };
  }
  const [ip] = endpoints.ips;
  return ip ? { host: ip, port } : undefined;
}

/**
 * A probe needs only the status. It reads up to this many bytes of the body, so that a short response is read
 * completely.
 */
const BODY_BYTES_MAX = 16 * 1024;

function probeHttp(
  address: Address,
  { type, path }: Extract<ProbeTarget, { type: "http" | "web" }>,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<ProbeResult> {
  let isConnected = false;
  const describeFailure = (message: string): ProbeResult => ({
    healthy: false,
    message,
    ...(type === "web" && isConnected ? { isSilent: true } : {}),
  });
  return withTimeout(timeoutMs, `GET ${path}`, describeFailure, signal, (settle, bound) => {
    const outgoing = request(
      {
        host: address.host,
        port: address.port,
        path: encodeURI(decodeSafely(path)),
        method: "GET",
        agent: false,
        headers: { Host: "localhost", Connection: "close", "User-Agent": "berth-probe" },
        signal: bound,
      },
      (response) => {
        const status = response.statusCode ?? 0;
        let bytes = 0;
        response.on("data", (chunk: Buffer) => {
          bytes += chunk.length;
          if (bytes > BODY_BYTES_MAX) outgoing.destroy();
        });
        response.on("error", () => {});
        response.once("close", () => outgoing.destroy());
        settle({
          healthy: type === "web" ? status < 500 : status >= 200 && status < 400,
          message: `GET ${path} answered ${status}`,
        });
      },
    );
    outgoing.once("socket", (socket) => socket.once("connect", () => (isConnected = true)));
    outgoing.on("error", (error) => {
      const message = `GET ${path}: ${describeError(error)}`;
      if (type === "web" && isNotHttp(error)) settle({ healthy: true, message });
      else settle(describeFailure(message));
    });
    outgoing.end();
  });
}

const describeUnhealthy = (message: string): ProbeResult => ({ healthy: false, message });

function probeTcp(
  address: Address,
  port: number,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<ProbeResult> {
  return withTimeout(timeoutMs, `port ${port}`, describeUnhealthy, signal, (settle, bound) => {
    const socket = connect({ host: address.host, port: address.port, signal: bound });
    socket.once("connect", () => {
      settle({ healthy: true, message: `port ${port} accepts connections` });
      socket.destroy();
    });
    socket.on("error", (error) =>
      settle({ healthy: false, message: `port ${port}: ${describeError(error)}` }),
    );
  });
}

async function probeCommand(
  connection: DockerConnection,
  id: string,
  command: readonly string[],
  timeoutMs: number,
  signal: AbortSignal,
): Promise<ProbeResult> {
  const name = command[0] ?? "the command";
  try {
    const { exitCode, output } = await execute(connection, id, command, timeoutMs, signal);
    const last = output.trim().split("\n").at(-1)?.slice(0, 200) ?? "";
    return {
      healthy: exitCode === 0,
      message: `${name} exited with ${exitCode}${last && exitCode !== 0 ? `: ${last}` : ""}`,
    };
  } catch (error) {
    if (error instanceof NotFoundError)
      return { healthy: false, message: "the container does not exist" };
    if (!(error instanceof BerthError) || error.code === "engine_unreachable") throw error;
    if (error.code === "timeout")
      return { healthy: false, message: `${name} did not end within ${timeoutMs} ms` };
    return {
      healthy: false,
      message: /not running/.test(error.message)
        ? "the container is not running"
        : getErrorMessage(error),
    };
  }
}

/** Limits the time of a whole request, including the body. */
function withTimeout(
  timeoutMs: number,
  what: string,
  describeFailure: (message: string) => ProbeResult,
  signal: AbortSignal,
  run: (settle: (result: ProbeResult) => void, bound: AbortSignal) => void,
): Promise<ProbeResult> {
  return new Promise((resolve, reject) => {
    const bound = new AbortController();
    const onAbort = () => {
      reject(signal.reason);
      bound.abort();
    };
    if (signal.aborted) {
      onAbort();
      return;
    }
    signal.addEventListener("abort", onAbort, { once: true });
    const timer = setTimeout(() => {
      resolve(describeFailure(`${what} did not answer within ${timeoutMs} ms`));
      bound.abort();
    }, timeoutMs);
    const settle = (result: ProbeResult) => {
      signal.removeEventListener("abort", onAbort);
      resolve(result);
    };
    bound.signal.addEventListener("abort", () => clearTimeout(timer), { once: true });
    run(settle, bound.signal);
  });
}

const reasons: Readonly<Record<string, string>> = {
  ECONNREFUSED: "connection refused",
  ECONNRESET: "connection reset",
  EHOSTUNREACH: "no route to the container",
  ENETUNREACH: "no route to the container",
  EPIPE: "connection closed",
};

/** Returns true if Node's HTTP parser has refused the response. */
function isNotHttp(error: unknown): boolean {
  return getErrorCode(error)?.startsWith("HPE_") === true;
}

function describeError(error: unknown): string {
  const code = getErrorCode(error);
  if (code === undefined) return "the connection failed";
  if (isNotHttp(error)) return "the answer is not HTTP";
  return reasons[code] ?? `the connection failed (${code})`;
}

/**
 * Decodes a percent-encoded path, so that `encodeURI` does not encode it twice. A path that cannot be decoded is
 * returned unchanged.
 */
function decodeSafely(path: string): string {
  try {
    return decodeURI(path);
  } catch {
    return path;
  }
}
