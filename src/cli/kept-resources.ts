import type { Client } from "../client/rest/client.ts";
import type { Kind } from "../resources/kinds.ts";
import { PART_OF_LABEL } from "../resources/resource.ts";
import type { AppDataView } from "../resources/wire/apps.ts";
import { formatReference } from "./resource-references.ts";

/** The resources and data that stay when an app is deleted. */
export interface KeptResources {
  /** References to the resources that a template has created for the app, such as `secret/blog-password`. */
  readonly companions: readonly string[];
  /** The app's own volumes and folders, such as `volume data`. */
  readonly own: readonly string[];
  /** Volumes and folders of the app's stack, which stay as long as another app uses them. */
  readonly shared: readonly { readonly place: string; readonly users: readonly string[] }[];
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
  const data = await readData(client, name);
  return {
    companions: [...(await listParts("App")), ...(await listParts("Secret"))],
    own: data.filter(({ stack }) => stack === null).map(formatPlace),
    shared: data
      .filter(({ stack }) => stack !== null)
      .map((item) => ({ place: formatPlace(item), users: item.used_by })),
  };
}

async function readData(client: Client, name: string): Promise<readonly AppDataView[]> {
  try {
    return (await client.apps.get(name)).data;
  } catch (error) {
    if (error instanceof Error && "status" in error && error.status === 404) return [];
    throw error;
  }
}

const formatPlace = ({ type, name }: AppDataView) => `${type} ${name}`;

/** Formats what stays after a deletion; with `isDataDeleted`, the app's own data does not. */
export function formatKeptResources(
  name: string,
  { companions, own, shared }: KeptResources,
  isDataDeleted: boolean,
): string[] {
  const kept = isDataDeleted ? [] : own;
  const inUse = shared.filter(({ users }) => users.length > 0 || !isDataDeleted);
  return [
    ...(companions.length === 0
      ? []
      : [
          `stays: ${companions.join(", ")}; delete them with \`berth delete ${companions.join(" ")}\``,
        ]),
    ...(kept.length === 0
      ? []
      : [
          `stays: the ${kept.join(", the ")} of ${name}, with all data; a new app ${name} that declares ${kept.length === 1 ? "it" : "them"} gets the data again`,
        ]),
    ...inUse.map(({ place, users }) =>
      users.length === 0
        ? `stays: the shared ${place}, which no other app uses`
        : `stays: the shared ${place}, used by ${users.join(", ")}`,
    ),
  ];
}
