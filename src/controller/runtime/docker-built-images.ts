import { timestamp } from "../../base/clock.ts";
import { findAppOfImage } from "../engine-names.ts";
import { IMAGE_REFERENCE } from "../labels.ts";
import type { DockerConnection } from "./docker-connection.ts";
import { getHttpStatus } from "./docker-errors.ts";
import { getValueAt } from "./docker-json.ts";
import { READ_LIMIT_MS, REMOVE_IMAGE_LIMIT_MS } from "./docker-limits.ts";
import { assertReference } from "./docker-reference.ts";
import type { BuiltImageInfo } from "./port.ts";

/** The engine's placeholder for an image without a tag. */
const NO_TAG = "<none>:<none>";
const ID = /^sha256:[0-9a-f]{64}$/;

/** Lists the images with a tag of this instance. The size of a shared layer is counted for each image that has it. */
export async function listImages(
  connection: DockerConnection,
  filter: { readonly instance: string },
  signal: AbortSignal,
): Promise<BuiltImageInfo[]> {
  const found = await connection.call("list images", READ_LIMIT_MS, signal, (docker, abortSignal) =>
    // The images are filtered here, because a filter of the engine would leave out the other tags of an image.
    docker.listImages({ abortSignal }),
  );
  return found
    .map((image) => ({
      id: image.Id,
      // The list of tags is null for an image without tags, and empty from engine version 25 on.
      tags: (image.RepoTags ?? []).filter((tag) => tag !== NO_TAG).toSorted(),
      bytes: image.Size,
      createdAt: timestamp(image.Created * 1_000),
    }))
    .filter(({ tags }) => tags.some((tag) => findAppOfImage(filter.instance, tag) !== undefined));
}

/** Removes a tag. For the id of an image, removes the image with all its tags. */
export async function removeImage(
  connection: DockerConnection,
  reference: string,
  signal: AbortSignal,
): Promise<boolean> {
  assertReference(reference);
  return connection.call(
    `remove the image ${reference}`,
    REMOVE_IMAGE_LIMIT_MS,
    signal,
    async (docker, abortSignal) => {
      try {
        // Checks the containers first, because the engine would remove one of several tags of an image even if a
        // container was created with that tag.
        const users = await docker.listContainers({
          all: true,
          filters: { ancestor: [reference] },
          abortSignal,
        });
        const isUsed = users.some(({ Image: image, ImageID: id, Labels: labels }) =>
          [image, id, labels?.[IMAGE_REFERENCE]].includes(reference),
        );
        if (isUsed) return false;
        const names = ID.test(reference)
          ? await listImageTags(connection, reference, abortSignal)
          : [reference];
        for (const name of names) await docker.getImage(name).remove({ abortSignal });
        return true;
      } catch (error) {
        const status = getHttpStatus(error);
        if (status === 404 || status === 409) return false;
        throw error;
      }
    },
  );
}

/**
 * Returns the tags that have to be removed to remove an image. An engine does not remove an image by its id while the
 * image has several tags. It removes the image together with its last tag.
 */
async function listImageTags(
  connection: DockerConnection,
  id: string,
  bound: AbortSignal,
): Promise<string[]> {
  const image = await connection.request({ method: "GET", path: `/images/${id}/json` }, bound);
  const found = getValueAt(image, "RepoTags");
  const tags = (Array.isArray(found) ? found : []).filter(
    (tag) => typeof tag === "string" && tag !== NO_TAG,
  );
  return tags.length > 0 ? tags : [id];
}
