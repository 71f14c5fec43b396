import type { DockerConnection } from "./docker-connection.ts";
import { removeContainer } from "./docker-containers.ts";
import { getHttpStatus } from "./docker-errors.ts";
import { inspectImage } from "./docker-images.ts";
import { getValueAt, textAt } from "./docker-json.ts";
import { BUILD_CANCEL_LIMIT_MS } from "./docker-limits.ts";

/** A layer of the classic builder, as its output reports it. */
export interface ReportedLayer {
  /** The beginning of the image's id. */
  readonly id: string;
  /** False for a layer of a base image, and for a layer that an earlier build has made. */
  readonly isNew: boolean;
}

export interface CancelledBuild {
  /** The container of the running step, if one was reported. */
  readonly container: string | undefined;
  readonly layers: readonly ReportedLayer[];
  /** The tag of the build, if no image had it before; otherwise undefined. */
  readonly newTag: string | undefined;
}

/**
 * Removes what a cancelled build has made: its container, the image if the engine completed it before it noticed the
 * cancellation, and the untagged layers. Never throws.
 */
export async function undoBuild(
  connection: DockerConnection,
  { container, layers, newTag }: CancelledBuild,
): Promise<void> {
  await endContainer(connection, container);
  if (newTag !== undefined) await removeTag(connection, newTag);
  await removeLayers(connection, layers);
}

/**
 * Removes the container of a cancelled build. The engine removes it too, except while the container is being started
 * or stopped. The id comes from the stream of this build, so the container belongs to no other build.
 */
export async function endContainer(
  connection: DockerConnection,
  id: string | undefined,
): Promise<void> {
  if (id === undefined) return;
  const limit = new AbortController();
  const cancelTimer = connection.clock.setTimer(BUILD_CANCEL_LIMIT_MS, () => limit.abort());
  try {
    // If the engine is removing the container already, this waits until the container is gone, because the container's
    // layers cannot be removed before.
    await removeContainer(connection, id, limit.signal);
  } catch {
    // The error is ignored: either the engine is still removing the container, or the engine has exited, which ended
    // its builds.
  } finally {
    cancelTimer();
  }
}

/** Removes a tag, and with the last tag of an image also the image and its parents that nothing else uses. */
async function removeTag(connection: DockerConnection, tag: string): Promise<void> {
  const { signal } = new AbortController();
  try {
    if (!(await inspectImage(connection, tag, signal))) return;
    await connection.call("end a build", BUILD_CANCEL_LIMIT_MS, signal, (docker, abortSignal) =>
      docker.getImage(tag).remove({ abortSignal }),
    );
  } catch {
    // The error is ignored: if a container uses the image by now, or the engine cannot be reached, the image stays
    // under the app's tag. The collection of unused images removes it later.
  }
}

/**
 * Removes the untagged layers that a cancelled build has made. A command of the build can print any id. A layer is
 * therefore removed only if it has no tag, and if its parent is the layer before it.
 */
async function removeLayers(
  connection: DockerConnection,
  layers: readonly ReportedLayer[],
): Promise<void> {
  const { signal } = new AbortController();
  const own: string[] = [];
  try {
    let parent: string | undefined;
    for (const { id, isNew } of layers) {
      if (isNew && parent !== undefined) {
        const image = await readLayer(connection, id, signal);
        const tags = getValueAt(image, "RepoTags");
        const isTagged = Array.isArray(tags) && tags.length > 0;
        const isChild = textAt(image, "Parent")?.startsWith(`sha256:${parent}`) === true;
        if (isTagged || !isChild) break;
        own.push(id);
      }
      parent = id;
    }
    for (const id of own.toReversed()) {
      await connection.call("end a build", BUILD_CANCEL_LIMIT_MS, signal, (docker, abortSignal) =>
        docker.getImage(id).remove({ noprune: true, abortSignal }),
      );
    }
  } catch {
    // The error is ignored: if another image or container uses a layer by now, or the engine cannot be reached, the
    // layer stays in the engine's cache.
  }
}

/** Returns a layer as the engine describes it; undefined if it was removed together with the image. */
async function readLayer(
  connection: DockerConnection,
  id: string,
  signal: AbortSignal,
): Promise<unknown> {
  try {
    return await connection.call("end a build", BUILD_CANCEL_LIMIT_MS, signal, (_, bound) =>
      connection.request({ method: "GET", path: `/images/${id}/json` }, bound),
    );
  } catch (error) {
    const cause = error instanceof Error ? error.cause : undefined;
    if (getHttpStatus(error) === 404 || getHttpStatus(cause) === 404) return undefined;
    throw error;
  }
}
