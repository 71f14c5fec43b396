import { BerthError } from "../../base/errors.ts";
import { detectInterruption } from "./docker-build-interruption.ts";
import { BuildReader } from "./docker-build-reader.ts";
import { BuildSession } from "./docker-build-session.ts";
import type { DockerConnection } from "./docker-connection.ts";
import { ContextUpload } from "./docker-context-upload.ts";
import { getEngineMessage, getHttpStatus, toEngineError } from "./docker-errors.ts";
import { readBuffers } from "./docker-idle-timeout.ts";
import { numberAt } from "./docker-json.ts";
import { parseJsonLines } from "./docker-json-lines.ts";
import { BUILD_CANCEL_LIMIT_MS, BUILD_LIMIT_MS, READ_LIMIT_MS } from "./docker-limits.ts";
import { assertReference } from "./docker-reference.ts";
import { encodeRegistryConfig } from "./docker-registry-auth.ts";
import type { BuildImageOptions, BuildOutput } from "./port.ts";

/** Length of the kernel's CPU period, in microseconds: its default, and what a quota relates to. */
const CPU_PERIOD_US = 100_000;
/** The kernel takes no smaller quota. */
const CPU_QUOTA_MIN_US = 1_000;

/**
 * Builds on the engine that sent the request: what is built, how far it is and why it failed all come
 * in the answer's stream, and closing the connection ends the build (also when this process is killed).
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
  try {
    const imageId = await runImageBuild(connection, upload, options, reader, signal);
    return { imageId, bytes: await readImageSize(connection, imageId, action, signal) };
  } catch (error) {
    await endContainer(connection, reader.container);
    if (signal.aborted) throw signal.reason;
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
  // A source that breaks ends the request at whatever point it is, also before it has begun.
  const ended = new AbortController();
  const onAbort = () => ended.abort(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  upload.onFailure((error) => ended.abort(error));
  try {
    return await sendBuildRequest(connection, upload, options, reader, ended.signal);
  } finally {
    signal.removeEventListener("abort", onAbort);
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
  // The classic builder unpacks the whole context before its first word; BuildKit talks meanwhile.
  if (!session) upload.markConsumed();
  // A step may be silent for as long as it likes: only the whole has a limit.
  const cancel = connection.clock.setTimer(BUILD_LIMIT_MS, () => stream.destroy());
  try {
    for await (const message of parseJsonLines(readBuffers(stream))) reader.handleMessage(message);
  } finally {
    cancel();
    stream.destroy();
  }
  signal.throwIfAborted();
  reader.flush();
  if (reader.imageId === undefined)
    throw new BerthError("engine_unreachable", `cannot ${action}: the engine's answer broke off`, {
      hint: "see whether the engine is restarting",
    });
  return reader.imageId;
}

function buildQuery(options: BuildImageOptions): Record<string, string> {
  const { memoryBytes, nanoCpus, builder } = options;
  const limits: Record<string, string> = {};
  // BuildKit takes no limits; sent along they would only look as if they held.
  if (builder === "classic" && memoryBytes !== undefined) {
    limits["memory"] = String(memoryBytes);
    // Without this, as much again of swap.
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
    labels: JSON.stringify(options.labels),
    buildargs: JSON.stringify(options.args),
    rm: "1",
    forcerm: "1",
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

/**
 * An engine that is told of the end kills the step's container and removes it, though not where it
 * was just being started or stopped. Its id came in our own stream, so it is nobody else's.
 */
async function endContainer(connection: DockerConnection, id: string | undefined): Promise<void> {
  if (id === undefined) return;
  const { signal } = new AbortController();
  try {
    await connection.call("end a build", BUILD_CANCEL_LIMIT_MS, signal, (docker, abortSignal) =>
      docker.getContainer(id).remove({ force: true, v: true, abortSignal }),
    );
  } catch {
    // Gone, or being removed already; and an engine that went away ends its builds by itself.
  }
}

function toBuildError(
  error: unknown,
  upload: ContextUpload,
  reader: BuildReader,
  action: string,
): BerthError {
  if (upload.failure instanceof BerthError) return upload.failure;
  if (upload.failure !== undefined)
    return new BerthError("internal", `cannot ${action}: its source cannot be read`, {
      cause: upload.failure,
    });
  // Refused before the stream began, by a status.
  const refusal = error instanceof BerthError ? error.cause : undefined;
  if (getHttpStatus(refusal) !== undefined && reader.imageId === undefined)
    return reader.toError(getEngineMessage(refusal), undefined, refusal);
  return toEngineError(error, action);
}
