import type { DockerConnection } from "./docker-connection.ts";
import { getValueAt, textAt } from "./docker-json.ts";
import { BUILD_CANCEL_LIMIT_MS } from "./docker-limits.ts";

/** A layer of the classic builder, as its output reports it. */
export interface ReportedLayer {
  /** The beginning of the image's id. */
  readonly id: string;
  /** False for a base image, and for a layer that an earlier build has made. */
  readonly isNew: boolean;
}

/**
 * Removes the untagged layers that a cancelled build has made. A command of the build can print any id. A layer is
 * therefore removed only if it has no tag, and if its parent is the layer before it. Never throws.
 */
export async function removeLayers(
  connection: DockerConnection,
  layers: readonly ReportedLayer[],
): Promise<void> {
  const { signal } = new AbortController();
  const own: string[] = [];
  try {
    let parent: string | undefined;
    for (const { id, isNew } of layers) {
      if (isNew && parent !== undefined) {
        const image = await connection.call(
          "end a build",
          BUILD_CANCEL_LIMIT_MS,
          signal,
          (_, bound) => connection.request({ method: "GET", path: `/images/${id}/json` }, bound),
        );
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
    // Another image or container may use the layer by now, or the engine cannot be reached: the layer then stays in the
    // engine's cache.
  }
}
