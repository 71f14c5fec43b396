import type { Store } from "../../store/store.ts";
import type { RegistryAuth } from "../runtime/port.ts";

/** The registry of an image reference without a host, and the names that users write for it. */
const DEFAULT_REGISTRY_NAMES = ["docker.io", "index.docker.io", "registry-1.docker.io"];

/**
 * Returns the credentials for pulling `image`: those of the App's pullSecret, otherwise those of the first Secret of
 * type registry for the image's registry. Undefined if there are none.
 */
export function findRegistryAuth(
  store: Store,
  image: string,
  pullSecret: string | undefined,
): RegistryAuth | undefined {
  if (pullSecret !== undefined) return readRegistryAuth(store, pullSecret);
  const server = parseRegistryHost(image);
  for (const secret of store.list("Secret")) {
    if (secret.spec.type !== "registry") continue;
    const auth = readRegistryAuth(store, secret.metadata.name);
    if (auth && isSameServer(auth.server, server)) return auth;
  }
  return undefined;
}

/**
 * Returns the credentials of all Secrets of type registry, because it is not known in advance which of them the base
 * images of a build need.
 */
export function listRegistryAuths(store: Store): RegistryAuth[] {
  return store
    .list("Secret")
    .filter((secret) => secret.spec.type === "registry")
    .flatMap((secret) => readRegistryAuth(store, secret.metadata.name) ?? []);
}

/** Returns the registry of a reference by Docker's rule: the first part is a host if it looks like one. */
export function parseRegistryHost(image: string): string {
  const first = image.split("/")[0] ?? "";
  const isHost =
    image.includes("/") && (first.includes(".") || first.includes(":") || first === "localhost");
  return isHost ? first : "docker.io";
}

function readRegistryAuth(store: Store, name: string): RegistryAuth | undefined {
  const values = store.secrets.reveal(name);
  const server = values?.["server"];
  const username = values?.["username"];
  const password = values?.["password"];
  if (server === undefined || username === undefined || password === undefined) return undefined;
  return { server, username, password };
}

function isSameServer(a: string, b: string): boolean {
  return normalizeHost(a) === normalizeHost(b);
}

function normalizeHost(server: string): string {
  const host = server.replace(/^https?:\/\//, "").split("/")[0] ?? server;
  return DEFAULT_REGISTRY_NAMES.includes(host) ? "docker.io" : host;
}
