import { fileURLToPath } from "node:url";
import { isLoopbackAddress, isMetadataAddress } from "../base/ip-address.ts";

/** The parsed `source` of a Model. */
export type ModelSource =
  /** `org/name` on the hub. */
  | { readonly type: "repository"; readonly id: string }
  /** A file at an HTTP or HTTPS URL. */
  | { readonly type: "url"; readonly url: URL }
  /** A file of this machine, by its absolute path. */
  | { readonly type: "local"; readonly path: string };

/** Returns the source or its problem, which never contains a possible password. Pure, without requests. */
export function parseModelSource(
  text: string,
): { readonly source: ModelSource } | { readonly problem: string } {
  if (/^\s|\s$|\p{Cc}/u.test(text))
    return { problem: "begins or ends with white space, or contains control characters" };
  if (/^https?:/i.test(text)) return parseUrlSource(text);
  if (/^file:/i.test(text)) return parseFileUrlSource(text);
  if (text.startsWith("/")) return { source: { type: "local", path: text } };
  if (/^(\.{1,2}|~[^/]*)(\/|$)/.test(text))
    return { problem: "is a relative path: write the absolute one, beginning with /" };
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(text))
    return { problem: "has a scheme that is not https, http or file" };
  return parseRepositorySource(text);
}

/**
 * Returns true if the host of a URL is a loopback address, `localhost`, or a name below `localhost`. Addresses of other
 * names are checked when the names are resolved (`findAddressProblem`).
 */
export function isLoopback(url: URL): boolean {
  const host = getHost(url);
  return isLoopbackAddress(host) || /^(.+\.)?localhost$/.test(host);
}

/**
 * Returns the reason why Berth must not send a request to an address that the source URL `original` leads to; undefined
 * if the request is allowed. The reason completes a sentence whose subject is the host. Only a URL that itself names
 * this machine may lead to this machine: otherwise the author of a URL could make Berth call local services through a
 * redirect, or through a name with a loopback address.
 */
export function findAddressProblem(original: URL, address: string): string | undefined {
  if (isMetadataAddress(address)) return metadataProblem;
  return isLoopbackAddress(address) && !isLoopback(original)
    ? "leads to this machine, which only a source with localhost or 127.0.0.1 may name"
    : undefined;
}

/**
 * Returns the result of `findAddressProblem` for the host of a URL, if the host is an address or a name of this
 * machine. The addresses of all other names are checked after they are resolved.
 */
export function findHostProblem(original: URL, url: URL): string | undefined {
  return findAddressProblem(original, isLoopback(url) ? "127.0.0.1" : getHost(url));
}

const metadataProblem =
  "is the metadata service of a cloud, which gives out a machine's credentials";

/** Returns the host without the brackets of an IPv6 address, and without the dots at the end of a name. */
function getHost({ hostname }: URL): string {
  return hostname.replace(/^\[(.*)\]$/, "$1").replace(/\.+$/, "");
}

function parseUrlSource(text: string): ReturnType<typeof parseModelSource> {
  const url = URL.parse(text) ?? undefined;
  if (url === undefined || !/^https?:\/\//i.test(text))
    return { problem: "is not a URL: write https://HOST/PATH/FILE.gguf" };
  if (url.username !== "" || url.password !== "")
    return {
      problem:
        "contains a user or a password, which would be readable: put a token into a Secret and name it in credential",
    };
  if (isMetadataAddress(getHost(url))) return { problem: metadataProblem };
  url.hash = "";
  return { source: { type: "url", url } };
}

function parseFileUrlSource(text: string): ReturnType<typeof parseModelSource> {
  const problem = "is not a URL of a file of this machine: write file:///PATH/FILE.gguf";
  if (!/^file:\/\/(localhost)?\//i.test(text) || URL.parse(text) === null) return { problem };
  try {
    return { source: { type: "local", path: fileURLToPath(text) } };
  } catch {
    // The path contains an encoded slash or an invalid % encoding.
    return { problem };
  }
}

/** The hub's limit for the length of an organisation's name and of a repository's name. */
const PART_LENGTH_MAX = 96;
const PART_PATTERN = /^\w([\w.-]*\w)?$/;

function parseRepositorySource(text: string): ReturnType<typeof parseModelSource> {
  const form = "write org/name, as the hub's page shows it";
  const [org = "", name, ...rest] = text.split("/");
  const tag = /^([^:]+):([\w.-]+)$/.exec(text);
  if (tag)
    return { problem: `contains ":${tag[2]}": write "${tag[1]}", and quantization: ${tag[2]}` };
  if (name === undefined) return { problem: `is not a repository id: ${form}` };
  if (rest.length > 0)
    return {
      problem: org.includes(".")
        ? `is not a repository id: ${form}, without the hub's address`
        : `is not a repository id: ${form}, and what comes after it as file`,
    };
  if (text.includes(".."))
    return { problem: "contains .., which is not allowed in repository ids" };
  if (org.length > PART_LENGTH_MAX || name.length > PART_LENGTH_MAX)
    return { problem: `has a part longer than ${PART_LENGTH_MAX} characters` };
  if (!PART_PATTERN.test(org) || !PART_PATTERN.test(name))
    return {
      problem: `is not a repository id: ${form}; each part is letters, digits, . _ and -, and begins and ends with a letter or digit`,
    };
  return { source: { type: "repository", id: text } };
}
