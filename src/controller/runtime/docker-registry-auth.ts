import type { RegistryAuth } from "./port.ts";

/** The name under which engines expect the credentials for the default registry. */
const DEFAULT_REGISTRY = "https://index.docker.io/v1/";
const DEFAULT_HOSTS = ["docker.io", "index.docker.io", "registry-1.docker.io"];

/** Encodes the header `X-Registry-Auth` of a pull. */
export function encodeRegistryAuth(auth: RegistryAuth): string {
  return encodeAuthHeader(toCredentials(auth));
}

/** Encodes the header `X-Registry-Config` of a build: the credentials for base images by server. */
export function encodeRegistryConfig(auths: readonly RegistryAuth[]): string {
  return encodeAuthHeader(
    Object.fromEntries(auths.map((auth) => [getServerKey(auth), toCredentials(auth)])),
  );
}

/** Returns the credentials for a registry. The host may be written as in an image reference or as in a URL. */
export function findAuth(host: string, auths: readonly RegistryAuth[]): RegistryAuth | undefined {
  return auths.find((auth) => normalizeHost(auth.server) === normalizeHost(host));
}

function getServerKey(auth: RegistryAuth): string {
  const host = normalizeHost(auth.server);
  return host === "docker.io" ? DEFAULT_REGISTRY : host;
}

function normalizeHost(server: string): string {
  const host = server.replace(/^https?:\/\//, "").split("/")[0] ?? server;
  return DEFAULT_HOSTS.includes(host) ? "docker.io" : host;
}

function toCredentials(auth: RegistryAuth): Record<string, string> {
  return { username: auth.username, password: auth.password, serveraddress: auth.server };
}

function encodeAuthHeader(value: unknown): string {
  // The engine ignores a header that it cannot decode, so the value needs the padding that "base64url" omits.
  const text = Buffer.from(JSON.stringify(value)).toString("base64");
  return text.replaceAll("+", "-").replaceAll("/", "_");
}
