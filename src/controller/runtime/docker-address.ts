import { BerthError } from "../../base/errors.ts";
import type { EngineLocation } from "../engine-host.ts";

/** The parsed address of an engine. */
export type DockerAddress =
  | {
      readonly transport: "unix";
      readonly socketPath: string;
      readonly location: Extract<EngineLocation, "this-machine">;
    }
  | {
      readonly transport: "http" | "https";
      readonly host: string;
      readonly port: number;
      readonly location: Exclude<EngineLocation, "this-machine">;
    };

/** Certificates and key as PEM. */
export interface DockerTls {
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
}

const DEFAULT_SOCKET = "/var/run/docker.sock";
const PLAIN_PORT = 2375;
const TLS_PORT = 2376;

/**
 * Parses the forms of DOCKER_HOST: `unix:///path`, `/path`, `tcp://host:port`, `http://` and `https://`. Uses TLS for
 * tcp on port 2376, like the docker command. Throws `invalid_request`.
 */
export function parseDockerHost(text: string | undefined): DockerAddress {
  const value = (text ?? "").trim();
  if (value === "") return unixAddress(DEFAULT_SOCKET);
  if (value.startsWith("/")) return unixAddress(value);
  if (value.startsWith("unix://"))
    return unixAddress(value.slice("unix://".length) || DEFAULT_SOCKET);

  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(value)?.[1]?.toLowerCase() ?? "tcp";
  if (scheme === "ssh")
    throw invalid("an engine cannot be reached by ssh:// directly", {
      hint: "forward the engine's socket, then use the local one: ssh -NL /run/berth-docker.sock:/var/run/docker.sock USER@HOST and --docker-host unix:///run/berth-docker.sock",
    });
  if (scheme !== "tcp" && scheme !== "http" && scheme !== "https")
    throw invalid(`the engine's address starts with ${scheme}://, which is not supported`);
  let url: URL;
  try {
    url = new URL(value.includes("://") ? value.replace(/^tcp:/i, "http:") : `http://${value}`);
  } catch (cause) {
    throw invalid("the engine's address cannot be read", { cause });
  }
  if (url.username || url.password || (url.pathname !== "/" && url.pathname !== "") || url.search)
    throw invalid("the engine's address must be a host and a port only");
  const secure = scheme === "https" || (scheme === "tcp" && url.port === String(TLS_PORT));
  const port = url.port === "" ? (secure ? TLS_PORT : PLAIN_PORT) : Number(url.port);
  const host = url.hostname.replace(/^\[|\]$/g, "");
  const isLoopback = /^(localhost|127(\.\d+){3}|::1)$/.test(host);
  return {
    transport: secure ? "https" : "http",
    host,
    port,
    location: isLoopback ? "loopback" : "remote",
  };
}

function unixAddress(socketPath: string): DockerAddress {
  return { transport: "unix", socketPath, location: "this-machine" };
}

function invalid(message: string, options: { hint?: string; cause?: unknown } = {}): BerthError {
  return new BerthError("invalid_request", message, {
    hint: "use unix:///var/run/docker.sock, tcp://HOST:2375 or https://HOST:2376",
    ...options,
  });
}
