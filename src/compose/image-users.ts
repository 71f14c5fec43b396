import { getValue, isNull, type Mapping } from "./compose-tree.ts";
import { getRepository } from "./image-ports.ts";

/** A service that runs an image. */
export interface ImageUser {
  readonly service: string;
  /** True if the service replaces the command or the entrypoint of the image. */
  readonly hasCommand: boolean;
}

/** Returns the services that run each image, by the name of the image without its tag. */
export function mapImageUsers(services: ReadonlyMap<string, Mapping>): Map<string, ImageUser[]> {
  const users = new Map<string, ImageUser[]>();
  for (const [service, body] of services) {
    const image = getValue(body, "image");
    if (image?.kind !== "scalar") continue;
    const hasCommand = ["command", "entrypoint"].some((key) => {
      const value = getValue(body, key);
      return value !== undefined && !isNull(value);
    });
    const repository = getRepository(image.text);
    users.set(repository, [...(users.get(repository) ?? []), { service, hasCommand }]);
  }
  return users;
}
