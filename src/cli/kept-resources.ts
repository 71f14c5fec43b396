import type { Client } from "../client/rest/client.ts";
import type { Kind } from "../resources/kinds.ts";
import { PART_OF_LABEL } from "../resources/resource.ts";
import { formatReference } from "./resource-references.ts";

/** The resources and data that stay when an app is deleted. */
export interface KeptResources {
  /** References to the resources that a template has created for the app, such as `secret/blog-password`. */
  readonly companions: readonly string[];
  /** Names of the app's named volumes. */
  readonly volumes: readonly string[];
}

/**
 * Finds the resources and data that will stay when the app is deleted. Call it before the deletion. The result is empty
 * for an app that does not exist.
 */
export async function findKeptResources(client: Client, name: string): Promise<KeptResources> {
  const listParts = async (kind: Kind) => {
    const { items } = await client.resources.list(kind);
    return items
      .filter(({ metadata }) => metadata.labels[PART_OF_LABEL] === name && metadata.name !== name)
      .map(({ metadata }) => formatReference(kind, metadata.name));
  };
  const { items } = await client.resources.list("App");
  const app = items.find(({ metadata }) => metadata.name === name);
  const volumes = app && "volumes" in app.spec ? app.spec.volumes : undefined;
  return {
    companions: [...(await listParts("App")), ...(await listParts("Secret"))],
    volumes: (volumes ?? []).flatMap((volume) => ("name" in volume ? [volume.name] : [])),
  };
}

export function formatKeptResources(name: string, kept: KeptResources): string[] {
  const { companions, volumes } = kept;
  return [
    ...(companions.length === 0
      ? []
      : [
          `stays: ${companions.join(", ")}; delete them with \`berth delete ${companions.join(" ")}\``,
        ]),
    ...(volumes.length === 0
      ? []
      : [
          `stays: ${volumes.length === 1 ? "the volume" : "the volumes"} ${volumes.join(", ")} of ${name}, with all data; a new app ${name} that declares ${volumes.length === 1 ? "it" : "them"} gets the data again`,
        ]),
  ];
}
