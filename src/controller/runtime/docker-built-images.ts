import { timestamp } from "../../base/clock.ts";
import { IMAGE_PREFIX } from "../labels.ts";
import type { DockerConnection } from "./docker-connection.ts";
import { getHttpStatus } from "./docker-errors.ts";
import { getValueAt } from "./docker-json.ts";
import { READ_LIMIT_MS, REMOVE_IMAGE_LIMIT_MS } from "./docker-limits.ts";
import { assertReference } from "./docker-reference.ts";
import type { BuiltImageInfo } from "./port.ts";

/** What an engine shows in place of the tag that an image has lost. */
const NO_TAG = "<none>:<none>";
const ID = /^sha256:[0-9a-f]{64}$/;

/** Also images whose tag has gone over to a newer one. Layers that images share count in each. */
export async function listImages(
  connection: DockerConnection,
  filter: { readonly instance: string },
  signal: AbortSignal,
): Promise<BuiltImageInfo[]> {
  const found = await connection.call("list images", READ_LIMIT_MS, signal, (docker, abortSignal) =>
    docker.listImages({
      filters: { label: [IMAGE_PREFIX + filter.instance] },
      abortSignal,
    }),
  );
  return found.map((image) => ({
    id: image.Id,
    // Null where there is none, from engines of version 25 on an empty list.
    tags: (image.RepoTags ?? []).filter((tag) => tag !== NO_TAG).toSorted(),
    labels: image.Labels ?? {},
    bytes: image.Size,
    createdAt: timestamp(image.Created * 1_000),
  }));
}

/** By tag, or by id with all its tags. */
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
        // An image of several names loses one although containers were made from it by that name.
        const users = await docker.listContainers({
          all: true,
          filters: { ancestor: [reference] },
          abortSignal,
        });
        const isUsed = users.some(
          (container) => container.Image === reference || container.ImageID === reference,
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

/** An engine removes no image by its id while it has several tags; with its last tag it goes. */
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
