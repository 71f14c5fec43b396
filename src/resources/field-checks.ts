import { isIP } from "node:net";
import type { SpecIssue } from "../base/errors.ts";
import { formatPointer } from "./json-pointer.ts";

export interface IssueList {
  readonly issues: SpecIssue[];
  readonly add: (path: readonly string[], message: string) => void;
}

export function createIssueList(): IssueList {
  const issues: SpecIssue[] = [];
  return { issues, add: (path, message) => issues.push({ path: formatPointer(path), message }) };
}

/** Returns true if a relative path does not lead out of the folder that it is relative to. */
export function isInsidePath(path: string): boolean {
  return !path.startsWith("/") && !path.split("/").includes("..") && !path.includes("\0");
}

/** Returns the problem of a host name that matches the schema's pattern; undefined if the host name is valid. */
export function findDomainProblem(domain: string): string | undefined {
  if (isIP(domain) !== 0) return "is an address; a domain is a name, such as hello.example.org";
  if (domain.split(".").some((label) => label.length > 63)) {
    return "has a part longer than 63 characters";
  }
  return undefined;
}

/** Checks Docker's grammar of image references, so that typos are found before the first pull. */
export function findImageProblem(reference: string): string | undefined {
  if (/^sha256:[0-9a-f]{64}$/.test(reference)) return undefined;
  const [rest = "", digest, ...extra] = reference.split("@");
  if (extra.length > 0 || (digest !== undefined && !digestPattern.test(digest))) {
    return "has a digest that is not of the form @sha256:<64 hexadecimal digits>";
  }
  const slash = rest.lastIndexOf("/");
  const colon = rest.indexOf(":", slash + 1);
  const tag = colon === -1 ? undefined : rest.slice(colon + 1);
  if (tag !== undefined && !/^\w[\w.-]{0,127}$/.test(tag)) {
    return "has a tag that is not letters, digits, _ . and - (at most 128)";
  }
  const parts = (colon === -1 ? rest : rest.slice(0, colon)).split("/");
  const [first = ""] = parts;
  const hasHost = parts.length > 1 && (/[.:]/.test(first) || first === "localhost");
  if (hasHost && !/^(\[[0-9a-fA-F:]+\]|[A-Za-z0-9.-]+)(:[0-9]+)?$/.test(first)) {
    return "has a registry that is not a host name or host:port";
  }
  const names = hasHost ? parts.slice(1) : parts;
  if (names.some((name) => name !== name.toLowerCase())) {
    return "has upper-case letters; image names are lower case";
  }
  if (names.some((name) => !/^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*$/.test(name))) {
    return "is not an image reference, such as nginx:1.27 or registry.example.org/team/app:v1";
  }
  return undefined;
}

const digestPattern = /^sha256:[0-9a-f]{64}$|^sha512:[0-9a-f]{128}$/;
