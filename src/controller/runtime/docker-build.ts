import type { Readable } from "node:stream";
import type { Clock } from "../../base/clock.ts";
import { BerthError } from "../../base/errors.ts";
import { endContainer, undoBuild } from "./docker-build-cancellation.ts";
import { detectInterruption } from "./docker-build-interruption.ts";
import { BuildReader } from "./docker-build-reader.ts";
import { BuildSession } from "./docker-build-session.ts";
import type { DockerConnection } from "./docker-connection.ts";
import { ContextUpload } from "./docker-context-upload.ts";
import {
  getEngineMessage,
  getHttpStatus,
  PULL_ACTION_PREFIX,
  silentRegistryError,
  toEngineError,
} from "./docker-errors.ts";
import { readBuffers } from "./docker-idle-timeout.ts";
import { inspectImage } from "./docker-images.ts";
import { numberAt } from "./docker-json.ts";
import { parseJsonLines } from "./docker-json-lines.ts";
import {
  BUILD_LAST_STEP_LIMIT_MS,
  BUILD_LIMIT_MS,
  PULL_IDLE_LIMIT_MS,
  PULL_OPEN_LIMIT_MS,
  READ_LIMIT_MS,
} from "./docker-limits.ts";
import { assertReference } from "./docker-reference.ts";
import { encodeRegistryConfig } from "./docker-registry-auth.ts";
import type { BuildImageOptions, BuildOutput } from "./port.ts";

/** The kernel's default CPU period in microseconds. A quota is the CPU time that a build may use in each period. */
const CPU_PERIOD_US = 100_000;
/** The smallest quota that the kernel accepts. */
const CPU_QUOTA_MIN_US = 1_000;

/**
 * Builds an image with one request to the engine. The response stream contains output, progress and errors. Closing
 * the connection cancels the build, even if this process is killed.
 */
export async function buildImage(
  connection: DockerConnection,
  context: AsyncIterable<Uint8Array>,
  options: BuildImageOptions,
  onOutput: (line: BuildOutput) => void,
  signal: AbortSignal,
): Promise<{ imageId: string; bytes: number }> {
  const reader = new BuildReader({
    onOutput,
    now: () => connection.clock.now(),
    memoryBytes: options.builder === "classic" ? options.memoryBytes : undefined,
    hasAuth: options.auths.length > 0,
  });
  using upload = new ContextUpload(connection.clock, context);
  const action = `build the image ${assertReference(options.tag)}`;
  let newTag: string | undefined;
  try {
    if (!(await inspectImage(connection, options.tag, signal))) newTag = options.tag;
    const imageId = await runImageBuild(connection, upload, options, reader, signal);
    return { imageId, bytes: await readImageSize(connection, imageId, action, signal) };
  } catch (error) {
    if (signal.aborted) {
      const { container, layers } = reader;
      await undoBuild(connection, { container, layers, newTag });
      throw signal.reason;
    }
    await endContainer(connection, reader.container);
    const failure = toBuildError(error, upload, reader, action);
    if (numberAt(failure.details, "exitCode") === undefined) throw failure;
    throw (await detectInterruption(connection, reader.lastContainer, signal)) ?? failure;
  }
}

async function runImageBuild(
  connection: DockerConnection,
  upload: ContextUpload,
  options: BuildImageOptions,
  reader: BuildReader,
  signal: AbortSignal,
): Promise<string> {
  signal.throwIfAborted();
  // A failure to read the source aborts the request, even if the failure occurs before the request is sent.
  const ended = new AbortController();
  const abort = () => ended.abort(signal.reason);
  let cancelTimer: (() => void) | undefined;
  const onAbort = () => {
    if (!reader.isInLastStep) {
      abort();
      return;
    }
    // The request is not aborted yet: an engine that loses the connection now may still tag the image later, and
    // nothing would report that. The end of the engine's response shows that it has completed or ended the build.
    cancelTimer = connection.clock.setTimer(BUILD_LAST_STEP_LIMIT_MS, abort);
    void endContainer(connection, reader.container);
  };
  signal.addEventListener("abort", onAbort, { once: true });
  upload.onFailure((error) => ended.abort(error));
  try {
    return await sendBuildRequest(connection, upload, options, reader, ended.signal);
  } finally {
    signal.removeEventListener("abort", onAbort);
    cancelTimer?.();
  }
}

async function sendBuildRequest(
  connection: DockerConnection,
  upload: ContextUpload,
  options: BuildImageOptions,
  reader: BuildReader,
  signal: AbortSignal,
): Promise<string> {
  const action = `build the image ${options.tag}`;
  await using session =
    options.builder === "buildkit"
      ? await BuildSession.open(connection, options.auths, signal)
      : undefined;
  const stream = await connection.stream(action, BUILD_LIMIT_MS, signal, {
    method: "POST",
    path: "/build",
    query: { ...buildQuery(options), ...(session ? { version: "2", session: session.id } : {}) },
    headers: { "X-Registry-Config": encodeRegistryConfig(options.auths) },
    upload: upload.stream,
  });
  // The classic builder has read the whole context when it responds; BuildKit responds earlier.
  if (!session) upload.markConsumed();
  // A step may be silent for any length of time. Only during the pull of a base image is silence limited.
  const cancel = connection.clock.setTimer(BUILD_LIMIT_MS, () => stream.destroy());
  const silence = new PullSilence(connection.clock, stream, reader);
  try {
    for await (const message of parseJsonLines(readBuffers(stream))) {
      reader.handleMessage(message);
      silence.restart();
    }
  } finally {
    cancel();
    silence.stop();
    stream.destroy();
  }
  signal.throwIfAborted();
  reader.flush();
  if (reader.imageId === undefined)
    throw new BerthError(
      "engine_unreachable",
      `cannot ${action}: the engine's response was cut off`,
      {
        hint: "check if the engine is restarting",
      },
    );
  return reader.imageId;
}

/** Destroys the stream of a build when the registry of a base image is silent for too long. */
class PullSilence {
  readonly #clock: Clock;
  readonly #stream: Readable;
  readonly #reader: BuildReader;
  #cancel: () => void = () => {};

  constructor(clock: Clock, stream: Readable, reader: BuildReader) {
    this.#clock = clock;
    this.#stream = stream;
    this.#reader = reader;
  }

  /** Restarts the time limit. Called after each message. */
  restart(): void {
    this.#cancel();
    const { pull } = this.#reader;
    if (!pull) return;
    const limitMs = pull.hasProgress ? PULL_IDLE_LIMIT_MS : PULL_OPEN_LIMIT_MS;
    this.#cancel = this.#clock.setTimer(limitMs, () =>
      this.#stream.destroy(silentRegistryError(`${PULL_ACTION_PREFIX}${pull.image}`, limitMs)),
    );
  }

  stop(): void {
    this.#cancel();
  }
}

function buildQuery(options: BuildImageOptions): Record<string, string> {
  const { memoryBytes, nanoCpus, builder } = options;
  const limits: Record<string, string> = {};
  // BuildKit ignores limits, so they are not sent: otherwise they would seem to apply.
  if (builder === "classic" && memoryBytes !== undefined) {
    limits["memory"] = String(memoryBytes);
    // Without this setting, the build could use the same amount of swap in addition.
    limits["memswap"] = String(memoryBytes);
  }
  if (builder === "classic" && nanoCpus !== undefined) {
    const quota = Math.round((nanoCpus / 1e9) * CPU_PERIOD_US);
    limits["cpuperiod"] = String(CPU_PERIOD_US);
    limits["cpuquota"] = String(Math.max(CPU_QUOTA_MIN_US, quota));
  }
  return {
    t: options.tag,
    dockerfile: options.dockerfile,
    buildargs: JSON.stringify(options.args),
    rm: "1",
    forcerm: "1",
    ...(options.platform === undefined ? {} : { platform: options.platform }),
    ...(options.target === undefined ? {} : { target: options.target }),
    ...(options.noCache === true ? { nocache: "1" } : {}),
    ...limits,
  };
}

async function readImageSize(
  connection: DockerConnection,
  imageId: string,
  action: string,
  signal: AbortSignal,
): Promise<number> {
  const image = await connection.call(action, READ_LIMIT_MS, signal, (_, bound) =>
    connection.request({ method: "GET", path: `/images/${imageId}/json` }, bound),
  );
  return numberAt(image, "Size") ?? 0;
}

function toBuildError(
  error: unknown,
  upload: ContextUpload,
  reader: BuildReader,
  action: string,
): BerthError {
  if (upload.failure instanceof BerthError) return upload.failure;
  if (upload.failure !== undefined)
    return new BerthError("internal", `cannot ${action}: the source cannot be read`, {
      cause: upload.failure,
    });
  // The engine refused the build with an HTTP status before the stream began.
  const refusal = error instanceof BerthError ? error.cause : undefined;
  if (getHttpStatus(refusal) !== undefined && reader.imageId === undefined)
    return reader.toError(getEngineMessage(refusal), undefined, refusal);
  return toEngineError(error, action);
}
