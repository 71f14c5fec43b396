import type { Clock } from "../../base/clock.ts";
import { BerthError } from "../../base/errors.ts";
import { parseImageReference } from "../../resources/image-reference.ts";
import type { DockerConnection } from "./docker-connection.ts";
import {
  errorFromEngineText,
  getHttpStatus,
  isEngineTimeout,
  PULL_ACTION_PREFIX,
  silentRegistryError,
  toEngineError,
} from "./docker-errors.ts";
import { withIdleTimeout } from "./docker-idle-timeout.ts";
import { getValueAt, isRecord, numberAt, textAt } from "./docker-json.ts";
import { parseJsonLines } from "./docker-json-lines.ts";
import {
  PULL_IDLE_LIMIT_MS,
  PULL_LIMIT_MS,
  PULL_OPEN_LIMIT_MS,
  READ_LIMIT_MS,
} from "./docker-limits.ts";
import { assertReference, splitReference } from "./docker-reference.ts";
import { encodeRegistryAuth } from "./docker-registry-auth.ts";
import type { ImageInfo, PullProgress, RegistryAuth } from "./port.ts";

/** Implements ImageRuntime.inspectImage. Calls `onInspected` with the whole response of the engine. */
export async function inspectImage(
  connection: DockerConnection,
  reference: string,
  signal: AbortSignal,
  onInspected: (image: unknown) => void = () => {},
): Promise<ImageInfo | undefined> {
  assertReference(reference);
  return connection.call(
    `inspect the image ${reference}`,
    READ_LIMIT_MS,
    signal,
    async (_, bound) => {
      try {
        const image = await connection.request(
          { method: "GET", path: `/images/${reference}/json` },
          bound,
        );
        onInspected(image);
        const exposedPorts = getValueAt(image, "Config", "ExposedPorts");
        const exposed = isRecord(exposedPorts) ? Object.keys(exposedPorts) : [];
        const ports = exposed
          .filter((key) => key.endsWith("/tcp") || !key.includes("/"))
          .map((key) => Number.parseInt(key, 10))
          .filter((port) => port > 0);
        return {
          id: textAt(image, "Id") ?? "",
          digest: findRepositoryDigest(image, reference),
          exposedPorts: ports.toSorted((a, b) => a - b),
          platform: readPlatform(image),
        };
      } catch (error) {
        if (getHttpStatus(error) === 404) return undefined;
        throw error;
      }
    },
  );
}

export async function pullImage(
  connection: DockerConnection,
  reference: string,
  auth: RegistryAuth | undefined,
  onProgress: (progress: PullProgress) => void,
  signal: AbortSignal,
  platform?: string,
): Promise<string | undefined> {
  const action = `${PULL_ACTION_PREFIX}${reference}${platform === undefined ? "" : ` for ${platform}`}`;
  const { image, tag } = splitReference(reference);
  let silenceMs = PULL_OPEN_LIMIT_MS;
  let digest: string | undefined;
  try {
    const stream = await connection.stream(action, PULL_OPEN_LIMIT_MS, signal, {
      method: "POST",
      path: "/images/create",
      query: { fromImage: image, tag, ...(platform !== undefined && { platform }) },
      headers: auth ? { "X-Registry-Auth": encodeRegistryAuth(auth) } : {},
    });
    silenceMs = PULL_IDLE_LIMIT_MS;
    const idleTimeout = withIdleTimeout(connection.clock, stream, {
      silenceMs: PULL_IDLE_LIMIT_MS,
      totalMs: PULL_LIMIT_MS,
    });
    try {
      const progress = new PullProgressReporter(connection.clock, onProgress);
      for await (const message of parseJsonLines(idleTimeout.chunks)) {
        const failure = textAt(message, "error");
        if (failure !== undefined) throw errorFromEngineText(failure, action);
        digest = readDigest(message) ?? digest;
        progress.handleMessage(message);
      }
      progress.flush();
    } finally {
      idleTimeout.stop();
      stream.destroy();
    }
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    const failure = toEngineError(error, action);
    if (isEngineTimeout(failure) && (await isAnswering(connection, signal)))
      throw silentRegistryError(action, silenceMs, failure);
    // Registries give the same response for missing and for private images. If credentials were sent, the registry has
    // probably refused them.
    if (failure.code === "image_not_found" && auth && /private/.test(failure.message))
      throw new BerthError("registry_denied", `cannot ${action}: the registry denied access`, {
        cause: failure,
        hint: "check the name, and the user name and the password in the Secret that pullSecret names",
      });
    throw failure;
  }
  if (signal.aborted) throw signal.reason;
  return digest;
}

function readPlatform(image: unknown): string | undefined {
  const parts = ["Os", "Architecture", "Variant"].map((key) => textAt(image, key) ?? "");
  return parts[0] === "" || parts[1] === "" ? undefined : parts.filter(Boolean).join("/");
}

/** Reads the digest from the message with which an engine ends a pull. */
function readDigest(message: Readonly<Record<string, unknown>>): string | undefined {
  return /^Digest: (sha256:[0-9a-f]{64})$/.exec(textAt(message, "status") ?? "")?.[1];
}

/** Returns the image's digest in the repository of `reference`; undefined if the engine knows no such digest. */
function findRepositoryDigest(image: unknown, reference: string): string | undefined {
  const digests = getValueAt(image, "RepoDigests");
  const wanted = shortenRepository(parseImageReference(reference).repository);
  for (const known of Array.isArray(digests) ? digests : []) {
    if (typeof known !== "string") continue;
    const { repository, digest } = parseImageReference(known);
    if (digest !== null && shortenRepository(repository) === wanted) return digest;
  }
  return undefined;
}

/** Shortens the name of a repository of Docker Hub, as engines do. */
function shortenRepository(repository: string): string {
  return repository.replace(/^(?:index\.)?docker\.io\//, "").replace(/^library\//, "");
}

/**
 * True if the engine answers. If a pull gets no answer although the engine answers, the engine is waiting for the
 * registry.
 */
function isAnswering(connection: DockerConnection, signal: AbortSignal): Promise<boolean> {
  return connection.ping(signal).then(
    () => true,
    () => false,
  );
}

/** The minimum interval of progress reports. */
const PROGRESS_EVERY_MS = 250;
/** The maximum number of layers whose progress is kept. Only a wrong response has more: the engine allows 127. */
const LAYERS_MAX = 1_000;

/** Sums the progress of all layers. The sum never decreases. */
class PullProgressReporter {
  readonly #layers = new Map<string, { current: number; total: number }>();
  readonly #clock: Clock;
  readonly #report: (progress: PullProgress) => void;
  #last: PullProgress = { currentBytes: 0, totalBytes: 0, message: "Pulling" };
  #reportedAt = Number.NEGATIVE_INFINITY;
  #pending = false;

  constructor(clock: Clock, report: (progress: PullProgress) => void) {
    this.#clock = clock;
    this.#report = report;
  }

  handleMessage(message: Readonly<Record<string, unknown>>): void {
    const status = textAt(message, "status") ?? "";
    const id = textAt(message, "id");
    if (id !== undefined) this.#updateLayer(id, status, message["progressDetail"]);
    let currentBytes = 0;
    let totalBytes = 0;
    for (const layer of this.#layers.values()) {
      currentBytes += layer.current;
      totalBytes += layer.total;
    }
    this.#last = {
      currentBytes,
      totalBytes,
      message: (status || this.#last.message).slice(0, 200),
    };
    this.#pending = true;
    if (this.#clock.now() - this.#reportedAt >= PROGRESS_EVERY_MS) this.#reportNow();
  }

  flush(): void {
    if (this.#pending) this.#reportNow();
  }

  #updateLayer(id: string, status: string, detail: unknown): void {
    const current = numberAt(detail, "current");
    const total = numberAt(detail, "total");
    const layer = this.#layers.get(id) ?? { current: 0, total: 0 };
    if (status === "Downloading" && current !== undefined) {
      layer.current = Math.max(layer.current, current);
      if (total !== undefined) layer.total = Math.max(layer.total, total);
    } else if (/^(Download|Pull) complete|^Extracting/.test(status)) {
      // A small layer may complete without any Downloading message. Its size is then taken from the message of its
      // completion.
      if (layer.total === 0 && total !== undefined) layer.total = total;
      layer.current = layer.total;
    } else return;
    if (this.#layers.has(id) || this.#layers.size < LAYERS_MAX) this.#layers.set(id, layer);
  }

  #reportNow(): void {
    this.#pending = false;
    this.#reportedAt = this.#clock.now();
    this.#report(this.#last);
  }
}
