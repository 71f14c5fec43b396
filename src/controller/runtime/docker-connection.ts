import assert from "node:assert/strict";
import { Agent as HttpAgent, IncomingMessage } from "node:http";
import { Agent as HttpsAgent } from "node:https";
import { Duplex, type Readable } from "node:stream";
import { inspect } from "node:util";
import Docker from "dockerode";
import type { Clock } from "../../base/clock.ts";
import { BerthError } from "../../base/errors.ts";
import { type DockerAddress, type DockerTls, parseDockerHost } from "./docker-address.ts";
import { type EngineAction, engineTimeoutError, toEngineError } from "./docker-errors.ts";
import { getValueAt, textAt } from "./docker-json.ts";

/** The API version of Docker 20.10, the first one with every feature that Berth uses (such as host-gateway). */
const API_MIN = [1, 41] as const;
/** The newest API version that was tested. Newer engines still support it. */
const API_MAX = [1, 47] as const;
/** The time limit of the version request. An engine answers it within milliseconds, except while it starts. */
const NEGOTIATE_LIMIT_MS = 10_000;
/**
 * The time limit of a ping. systemd's socket accepts connections even while the engine is not running, but then no
 * process answers.
 */
const PING_LIMIT_MS = 10_000;
/**
 * The maximum number of concurrent calls. Reconcilers use fewer, but an inspection of many containers would use more.
 */
const SOCKETS_MAX = 64;

export interface EngineVersion {
  readonly api: string;
  readonly engine: string;
  readonly name: "docker" | "podman";
  readonly os: string;
  readonly arch: string;
}

export interface EngineRequest {
  readonly method: "GET" | "POST";
  /** The path of the request, with a leading slash. The caller percent-encodes names and ids in it. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: Readonly<Record<string, unknown>>;
  readonly headers?: Readonly<Record<string, string>>;
  /**
   * A tar archive that is sent as the body, as fast as the engine reads it. The caller destroys this stream after the
   * request.
   */
  readonly upload?: Readable;
}

/** The part of docker-modem that is missing in dockerode's types. */
interface Modem {
  version?: string;
  dial(options: Record<string, unknown>, callback: (error: unknown, data: unknown) => void): void;
}

function getModem(docker: Docker): Modem {
  const modem: unknown = docker.modem;
  assert(isModem(modem), "dockerode's modem has no dial");
  return modem;
}

function isModem(value: unknown): value is Modem {
  return value !== null && typeof value === "object" && "dial" in value;
}

/**
 * A connection to one Docker engine. It negotiates an API version before the first call and after each loss of the
 * engine, limits the time of every call, and converts errors to BerthErrors.
 */
export class DockerConnection {
  readonly address: DockerAddress;
  readonly clock: Clock;
  readonly #docker: Docker;
  readonly #streams: Docker;
  /** A client without an API version in its paths, for the version request. */
  readonly #bare: Docker;
  readonly #agents: readonly HttpAgent[];
  #version: Promise<EngineVersion> | undefined;

  constructor(options: { host: string | undefined; clock: Clock; tls?: DockerTls | undefined }) {
    this.address = parseDockerHost(options.host);
    this.clock = options.clock;
    const Agent = this.address.transport === "https" ? HttpsAgent : HttpAgent;
    const calls = new Agent({ keepAlive: true, maxSockets: SOCKETS_MAX, scheduling: "fifo" });
    // Streams stay open for hours. They have sockets of their own, because the number of sockets for calls is
    // limited.
    const streams = new Agent({ keepAlive: false });
    for (const agent of [calls, streams]) hideFromInspection(agent);
    this.#agents = [calls, streams];
    this.#docker = createDockerClient(this.address, calls, options.tls);
    this.#streams = createDockerClient(this.address, streams, options.tls);
    this.#bare = createDockerClient(this.address, calls, options.tls);
  }

  /**
   * Returns the engine's version, which is cached. Throws `engine_unreachable`, or `engine_error` if the engine is too
   * old or too new.
   */
  async version(signal: AbortSignal): Promise<EngineVersion> {
    return this.#withTimeout("ask the engine for its version", NEGOTIATE_LIMIT_MS, signal, () =>
      this.#ensureNegotiated(),
    );
  }

  /** Pings over a new connection. Throws `engine_unreachable`. */
  async ping(signal: AbortSignal): Promise<void> {
    await this.#withTimeout("reach the engine", PING_LIMIT_MS, signal, (bound) =>
      dial(this.#streams, versionRequest, bound),
    );
  }

  /** Runs one call. Throws the signal's reason if the signal aborts; all other errors are BerthErrors. */
  async call<T>(
    action: EngineAction,
    limitMs: number,
    signal: AbortSignal,
    run: (docker: Docker, signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    return this.#withTimeout(action, limitMs, signal, async (bound) => {
      await this.#ensureNegotiated();
      bound.throwIfAborted();
      return run(this.#docker, bound);
    });
  }

  /**
   * Sends a request that dockerode does not support or cannot abort, or whose response dockerode discards. Callers use
   * it inside the `run` function of `call`, and pass the signal of that function. Rejects with the same errors as
   * dockerode.
   */
  async request(request: EngineRequest, bound: AbortSignal): Promise<unknown> {
    return dial(this.#docker, request, bound);
  }

  /**
   * Opens a stream. `limitMs` limits the time until the head of the response. The stream is destroyed when `signal`
   * aborts. The caller destroys it when it stops reading.
   */
  async stream(
    action: EngineAction,
    limitMs: number,
    signal: AbortSignal,
    request: EngineRequest,
  ): Promise<IncomingMessage> {
    const response = await this.#withTimeout(action, limitMs, signal, async (bound) => {
      await this.#ensureNegotiated();
      bound.throwIfAborted();
      return dialStream(this.#streams, request, bound);
    });
    const onAbort = () => response.destroy();
    if (signal.aborted) onAbort();
    signal.addEventListener("abort", onAbort, { once: true });
    response.once("close", () => signal.removeEventListener("abort", onAbort));
    // A reader of the stream receives its errors in any case. Without a reader, this listener keeps an error from
    // ending the process.
    response.on("error", () => {});
    return response;
  }

  /**
   * Opens a connection that is upgraded from HTTP to another protocol. The connection is destroyed when `signal`
   * aborts; otherwise the caller destroys it.
   */
  async upgrade(
    action: EngineAction,
    limitMs: number,
    signal: AbortSignal,
    request: EngineRequest,
  ): Promise<Duplex> {
    const socket = await this.#withTimeout(action, limitMs, signal, async (bound) => {
      await this.#ensureNegotiated();
      bound.throwIfAborted();
      return dial(this.#streams, request, bound, "upgrade");
    });
    assert(socket instanceof Duplex, "the upgrade did not return a connection");
    const onAbort = () => socket.destroy();
    if (signal.aborted) onAbort();
    signal.addEventListener("abort", onAbort, { once: true });
    socket.once("close", () => signal.removeEventListener("abort", onAbort));
    socket.on("error", () => {});
    return socket;
  }

  close(): void {
    for (const agent of this.#agents) agent.destroy();
  }

  async #ensureNegotiated(): Promise<EngineVersion> {
    this.#version ??= this.#negotiate();
    return this.#version;
  }

  async #negotiate(): Promise<EngineVersion> {
    try {
      const version = await this.#withTimeout(
        "ask the engine for its version",
        NEGOTIATE_LIMIT_MS,
        new AbortController().signal,
        async (bound) => readVersion(await dial(this.#bare, versionRequest, bound)),
      );
      for (const docker of [this.#docker, this.#streams])
        getModem(docker).version = `v${version.api}`;
      return version;
    } catch (error) {
      this.#version = undefined;
      throw error;
    }
  }

  async #withTimeout<T>(
    action: EngineAction,
    limitMs: number,
    signal: AbortSignal,
    run: (bound: AbortSignal) => Promise<T>,
  ): Promise<T> {
    signal.throwIfAborted();
    // AbortSignal.any is not used here, because on Node 22 the long-lived signal keeps a reference to each combined
    // signal.
    const bound = new AbortController();
    hideFromInspection(bound.signal);
    let late = false;
    let onAbort = noop;
    let cancelTimer = noop;
    const aborted = new Promise<never>((_, reject) => {
      onAbort = () => {
        bound.abort();
        reject(signal.reason);
      };
      signal.addEventListener("abort", onAbort, { once: true });
      cancelTimer = this.clock.setTimer(limitMs, () => {
        late = true;
        bound.abort();
        reject(engineTimeoutError(action, limitMs));
      });
    });
    try {
      return await Promise.race([run(bound.signal), aborted]);
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      const failure = late ? engineTimeoutError(action, limitMs) : toEngineError(error, action);
      // The engine may have another version when it is reachable again, so the cached version is dropped.
      if (failure.code === "engine_unreachable") this.#version = undefined;
      throw failure;
    } finally {
      cancelTimer();
      signal.removeEventListener("abort", onAbort);
    }
  }
}

const noop = () => {};

/**
 * Makes docker-modem print only the class name of `value`. docker-modem formats the options of each request at full
 * depth, including non-enumerable properties, even if its debug output is off. With agents and signals in these
 * options, this took 140 ms of CPU for each new App; without them it takes no measurable time.
 */
function hideFromInspection(value: object): void {
  const name = value.constructor.name;
  Object.defineProperty(value, inspect.custom, { value: () => name });
}

const versionRequest: EngineRequest = { method: "GET", path: "/version" };

function createDockerClient(
  address: DockerAddress,
  agent: HttpAgent,
  tls: DockerTls | undefined,
): Docker {
  // Every option is set, if necessary to undefined, because docker-modem reads missing options from the environment.
  const where =
    address.transport === "unix"
      ? {
          socketPath: address.socketPath,
          host: undefined,
          port: undefined,
          protocol: "http" as const,
        }
      : {
          socketPath: undefined,
          host: address.host,
          port: address.port,
          protocol: address.transport,
        };
  const options = {
    ...where,
    agent,
    pathPrefix: "/",
    ca: tls?.ca,
    cert: tls?.cert,
    key: tls?.key,
    timeout: undefined,
    username: undefined,
    headers: {},
  };
  return new Docker(options);
}

async function dialStream(
  docker: Docker,
  request: EngineRequest,
  signal: AbortSignal,
): Promise<IncomingMessage> {
  const response = await dial(docker, request, signal, "stream");
  assert(response instanceof IncomingMessage, "the request did not return a stream");
  return response;
}

function dial(
  docker: Docker,
  request: EngineRequest,
  signal: AbortSignal,
  answer: "whole" | "stream" | "upgrade" = "whole",
): Promise<unknown> {
  return new Promise((resolve, reject) => {
    getModem(docker).dial(
      {
        // The path ends with a question mark if there is a query, because docker-modem adds the query only to such a
        // path.
        path: request.query ? `${request.path}?` : request.path,
        method: request.method,
        options: { _query: request.query ?? {}, _body: request.body ?? {} },
        headers: { ...request.headers },
        abortSignal: signal,
        file: request.upload,
        isStream: answer === "stream",
        hijack: answer === "upgrade",
        statusCodes: { 200: true, 201: true, 204: true },
      },
      (error, data) => (error ? reject(error) : resolve(data)),
    );
  });
}

function readVersion(answer: unknown): EngineVersion {
  const server = parseApiVersion(textAt(answer, "ApiVersion"));
  if (!server) throw notAnEngineError();
  const engine = textAt(answer, "Version") ?? "unknown";
  if (compare(server, API_MIN) < 0)
    throw new BerthError(
      "engine_error",
      `the engine is too old: version ${engine} speaks API ${server.join(".")}, Berth needs ${API_MIN.join(".")}`,
      { hint: "upgrade to Docker 20.10 or newer" },
    );
  const oldest = parseApiVersion(textAt(answer, "MinAPIVersion"));
  if (oldest && compare(oldest, API_MAX) > 0)
    throw new BerthError(
      "engine_error",
      `the engine is too new: version ${engine} speaks API ${oldest.join(".")} and newer, but this Berth speaks API up to ${API_MAX.join(".")}`,
      { hint: "upgrade Berth, or set min-api-version in the engine's configuration" },
    );
  const components = getValueAt(answer, "Components");
  const podman =
    Array.isArray(components) &&
    components.some((item) => /podman/i.test(textAt(item, "Name") ?? ""));
  return {
    api: (compare(server, API_MAX) < 0 ? server : API_MAX).join("."),
    engine,
    name: podman ? "podman" : "docker",
    os: textAt(answer, "Os") ?? "unknown",
    arch: textAt(answer, "Arch") ?? "unknown",
  };
}

function notAnEngineError(): BerthError {
  return new BerthError(
    "engine_error",
    "the server at the engine's address is not a container engine",
    {
      hint: "check --docker-host",
    },
  );
}

type ApiVersion = readonly [number, number];

function parseApiVersion(value: string | undefined): ApiVersion | undefined {
  const match = /^(\d+)\.(\d+)$/.exec(value ?? "");
  return match ? [Number(match[1]), Number(match[2])] : undefined;
}

function compare(a: ApiVersion, b: ApiVersion): number {
  return a[0] - b[0] || a[1] - b[1];
}
