import { BerthError, getErrorMessage, NotFoundError } from "../../base/errors.ts";
import { getErrorCode, numberAt, textAt } from "./docker-json.ts";

/** A verb phrase for messages: `start the container abc`. */
export type EngineAction = string;

/**
 * The beginning of the EngineAction of every pull. An error is recognised as an error of a registry only if its action
 * begins with this text.
 */
export const PULL_ACTION_PREFIX = "pull the image ";

/**
 * Converts an error of dockerode to a BerthError. Docker's status codes do not distinguish the cases that reconcilers
 * need (a 404 is a missing container, image or network; a taken port is a 500), so this file, and no other, matches the
 * texts of errors.
 */
export function toEngineError(error: unknown, action: EngineAction): BerthError {
  if (error instanceof BerthError) return error;
  const status = getHttpStatus(error);
  if (status === undefined) return connectionError(error, action);
  return errorFromEngineText(getEngineMessage(error), action, status, error);
}

/**
 * Converts an error that the engine reports inside a stream to a BerthError, as `toEngineError` does for the error of a
 * call.
 */
export function errorFromEngineText(
  text: string,
  action: EngineAction,
  status?: number,
  cause?: unknown,
): BerthError {
  for (const [pattern, make] of action.startsWith(PULL_ACTION_PREFIX)
    ? [...rules, ...pullRules]
    : rules) {
    const match = pattern.exec(text);
    if (match) return make(match, action, cause);
  }
  if (status === 404 && /no such container|no such exec/i.test(text))
    return new NotFoundError(`cannot ${action}: there is no such container`);
  return new BerthError("engine_error", `cannot ${action}: ${cleanEngineText(text)}`, { cause });
}

/** Returns the HTTP status of the response; undefined if there was none. */
export function getHttpStatus(error: unknown): number | undefined {
  return numberAt(error, "statusCode");
}

/** Returns the engine's message without dockerode's "(HTTP code 404) no such container - ". */
export function getEngineMessage(error: unknown): string {
  return (
    textAt(error, "json", "message") ??
    getErrorMessage(error).replace(/^\(HTTP code \d+\) [^-]*- /, "")
  );
}

export function engineTimeoutError(action: EngineAction, limitMs: number): BerthError {
  return new BerthError(
    "engine_unreachable",
    `cannot ${action}: the engine did not answer within ${Math.round(limitMs / 1000)} s`,
    {
      hint: "the engine may be overloaded or stuck: see its log, or restart it",
      cause: Object.assign(new Error("the time limit was exceeded"), { code: "ETIMEDOUT" }),
    },
  );
}

/** True for a call or a stream that exceeded its time limit. */
export function isEngineTimeout({ code, cause }: BerthError): boolean {
  return code === "engine_unreachable" && getErrorCode(cause) === "ETIMEDOUT";
}

/** Creates the error of a pull for which no answer, or no further data, arrived for `silenceMs`. */
export function silentRegistryError(
  action: EngineAction,
  silenceMs: number,
  cause?: unknown,
): BerthError {
  return new BerthError(
    "registry_unreachable",
    `cannot ${action}: the registry did not answer within ${Math.round(silenceMs / 1000)} s`,
    { cause, hint: REGISTRY_HINT },
  );
}

const REGISTRY_HINT = "check the registry's name, and the engine's network and proxy";

type Rule = readonly [
  RegExp,
  (match: RegExpExecArray, asked: EngineAction, cause: unknown) => BerthError,
];

const PORT_TAKEN =
  /(?:Bind for|listen tcp\d?|listen udp\d?|exposing port \S+ \S+ ->) ?([\d.:[\]a-f]*:\d+)?.*(?:port is already allocated|address already in use)|port is already allocated|address already in use/i;

/**
 * Matches the engine's refusal of an address that a client has chosen for a container. The capital letter in "Address
 * already in use" distinguishes this error of the engine from the kernel's error for a port in use.
 */
const ADDRESS_REFUSED =
  /(?:^|: )Address already in use$|user specified IP address is supported only|no configured subnet (?:or ip-range )?contains? |requested address is out of range/;

/** True if the engine refuses the address that a client has chosen for a container. */
export function isAddressRefused(error: unknown): boolean {
  const cause = error instanceof BerthError ? error.cause : error;
  return ADDRESS_REFUSED.test(getEngineMessage(cause).trim());
}

/**
 * True for the error of a container that could not be started because another program uses a port that the container
 * publishes.
 */
export function isPortTakenError(message: string): boolean {
  return PORT_TAKEN.test(message) && !ADDRESS_REFUSED.test(message.trim());
}

const rules: readonly Rule[] = [
  [
    /no space left on device|ENOSPC|disk quota exceeded/i,
    (_, asked, cause) =>
      new BerthError("disk_full", `cannot ${asked}: the engine's disk is full`, {
        cause,
        hint: "free some space: docker system df shows what uses it, docker image prune removes unused images",
      }),
  ],
  [
    ADDRESS_REFUSED,
    (_, asked, cause) =>
      new BerthError(
        "engine_error",
        `cannot ${asked}: the engine refuses the container's address`,
        { cause },
      ),
  ],
  [
    PORT_TAKEN,
    (match, asked, cause) =>
      new BerthError(
        "port_taken",
        `cannot ${asked}: ${match[1] ? `the port ${match[1]} is taken` : "a port that the container publishes is taken"}`,
        { cause, hint: "stop the program that listens on the port, or publish another port" },
      ),
  ],
  [
    /no such image|unable to find image/i,
    (_, asked, cause) =>
      new BerthError("image_not_found", `cannot ${asked}: there is no such image`, {
        cause,
        hint: "check the name and the tag",
      }),
  ],
  [
    /invalid reference format|repository name must be lowercase/i,
    (_, asked, cause) =>
      new BerthError("image_not_found", `cannot ${asked}: the name is not an image reference`, {
        cause,
        hint: "write the image as name:tag or registry.example.org/name:tag, in lower case",
      }),
  ],
  [
    /conflict.*name .* is already in use|name .* is already in use|network with name .* already exists/i,
    (_, asked, cause) =>
      new BerthError("name_clash", `cannot ${asked}: the name is in use already`, {
        cause,
        hint: "docker ps -a shows the container; rename or remove it",
      }),
  ],
  [
    /non-overlapping IPv4 address pool|all predefined address pools/i,
    (_, asked, cause) =>
      new BerthError("engine_error", `cannot ${asked}: the engine has no free network range`, {
        cause,
        hint: "remove unused networks (docker network prune), or widen default-address-pools of the engine",
      }),
  ],
];

const pullRules: readonly Rule[] = [
  [
    /manifest (?:for .* )?(?:not found|unknown)|name unknown|(?:repository|image) .* not found/i,
    (_, asked, cause) =>
      new BerthError("image_not_found", `cannot ${asked}: there is no such image`, {
        cause,
        hint: "check the name and the tag",
      }),
  ],
  [
    /repository does not exist or may require/i,
    (_, asked, cause) =>
      new BerthError(
        "image_not_found",
        `cannot ${asked}: there is no such image, or it is private`,
        { cause, hint: "check the name; a private image needs pullSecret" },
      ),
  ],
  [
    /no matching manifest/i,
    (_, asked, cause) =>
      new BerthError(
        "image_not_found",
        `cannot ${asked}: the image exists, but not for this platform`,
        { cause, hint: "choose a tag that is built for this architecture, or another platform" },
      ),
  ],
  [
    /unauthorized|authentication required|no basic auth credentials|incorrect username or password|\bdenied\b|access forbidden|\b(?:401|403)\b.*(?:Unauthorized|Forbidden)/i,
    (_, asked, cause) =>
      new BerthError("registry_denied", `cannot ${asked}: the registry denied access`, {
        cause,
        hint: "check the user name and the password in the Secret that pullSecret names",
      }),
  ],
  [
    /toomanyrequests|too many requests|rate limit/i,
    (_, asked, cause) =>
      new BerthError("engine_error", `cannot ${asked}: the registry limits the number of pulls`, {
        cause,
        hint: "Berth will retry later; credentials raise the limit",
      }),
  ],
  [
    /\b(?:Get|Head) "?https?:\/\/([^/"]+)\//i,
    (match, asked, cause) =>
      new BerthError(
        "registry_unreachable",
        `cannot ${asked}: the engine cannot reach the registry ${match[1]}`,
        { cause, hint: REGISTRY_HINT },
      ),
  ],
  [
    /\bdial tcp\b.*|no such host|i\/o timeout|TLS handshake timeout|connection reset by peer|unexpected HTTP status: 5\d\d.*/i,
    (match, asked, cause) =>
      new BerthError(
        "registry_unreachable",
        `cannot ${asked}: the connection to the registry failed: ${cleanEngineText(match[0])}`,
        { cause, hint: REGISTRY_HINT },
      ),
  ],
];

const unreachableReasons: Readonly<Record<string, readonly [string, string]>> = {
  ENOENT: ["the socket of the engine does not exist", "start it: systemctl start docker"],
  ECONNREFUSED: ["the connection was refused", "start it: systemctl start docker"],
  EACCES: [
    "this user may not use the socket of the engine",
    "run as root, or join the group docker: usermod -aG docker USER",
  ],
  EPERM: [
    "this user may not use the socket of the engine",
    "run as root, or join the group docker",
  ],
  ENOTFOUND: ["the host name of the engine is unknown", "check --docker-host"],
  ECONNRESET: ["the connection was cut", "check if the engine is restarting"],
  EPIPE: ["the connection was cut", "check if the engine is restarting"],
  ETIMEDOUT: ["the engine did not answer in time", "check --docker-host and the network"],
};

function connectionError(error: unknown, action: EngineAction): BerthError {
  const code = getErrorCode(error);
  // The error comes neither from the system nor from the engine. It is a bug in Berth, and a retry may cause it again.
  if (code === undefined)
    return new BerthError("internal", `cannot ${action}: ${getErrorMessage(error)}`, {
      cause: error,
    });
  const known = unreachableReasons[code];
  const [reason, hint] = known ?? ["the connection failed", "check that the engine is running"];
  return new BerthError(
    "engine_unreachable",
    `cannot ${action}: the engine is unreachable, ${reason}`,
    {
      cause: error,
      hint,
    },
  );
}

/** The maximum number of characters of an engine's error text that a message of Berth quotes. */
const TEXT_MAX = 600;

/** Removes the runtime's prefixes and the engine's own paths from a text. */
export function cleanEngineText(text: string): string {
  const short = text
    .trim()
    .replace(/\s+/g, " ")
    .replace(
      /(?:failed to create (?:shim )?task(?: for container)?: |OCI runtime (?:create|exec) failed: |runc create failed: |unable to start container process: |container_linux\.go:\d+: |starting container process caused: |exec failed: )+/g,
      "",
    )
    .replace(/: unknown$/, "")
    .replace(
      /\/[^\s:"']*\/(?:overlay2|containers|containerd|image|buildkit)\/[^\s:"']*/g,
      "(a file of the engine)",
    );
  return short.length > TEXT_MAX ? `${short.slice(0, TEXT_MAX)}...` : short || "no reason given";
}
