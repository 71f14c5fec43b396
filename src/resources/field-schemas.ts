import { Type } from "typebox";
import { bytesPattern, cpuPattern, durationPattern } from "../base/units.ts";

/** A DNS-1123 label, as in names of Kubernetes and in host names. */
export const namePattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
export const NAME_LENGTH_MAX = 63;

export const Name = Type.String({
  pattern: namePattern,
  maxLength: NAME_LENGTH_MAX,
  description:
    "lower-case letters, digits and hyphens, at most 63, starting and ending with a letter or digit",
});

export const Duration = Type.String({
  pattern: durationPattern,
  description: "a duration such as 500ms, 10s or 1h30m",
});
export const Bytes = Type.String({
  pattern: bytesPattern,
  description: "an amount of memory such as 256Mi or 1Gi",
});
export const Cpu = Type.String({
  pattern: cpuPattern,
  description: 'a number of CPUs such as "0.5" or 500m',
});

export const Port = Type.Integer({ minimum: 1, maximum: 65_535 });

/** A host name by RFC 1123: labels of at most 63 characters, 253 in total. */
export const domainPattern =
  "^(\\*\\.)?([a-z0-9]([-a-z0-9]*[a-z0-9])?)(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

export const Domain = Type.String({
  pattern: domainPattern,
  maxLength: 253,
  description: "a host name in lower case, such as hello.example.org",
});

/**
 * The value of `domain` for an App that gets no requests from outside. It cannot be mistaken for a host name, because
 * it has no dot.
 */
export const NO_DOMAIN = "none";

export const OwnDomain = Type.String({
  pattern: domainPattern,
  maxLength: 253,
  description: `a host name in lower case, such as hello.example.org, or ${NO_DOMAIN}`,
});

/** A host name in the network of a stack. Compose files also use upper case and underscores. */
export const Alias = Type.String({
  pattern: "^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$",
  maxLength: 253,
  description: "a host name: letters, digits, dots, hyphens and underscores",
});

/** An absolute path without `..`, so that a mount point cannot be disguised as another one. */
export const ContainerPath = Type.String({
  pattern: "^/(?!.*(^|/)\\.\\.(/|$))",
  maxLength: 4096,
  description: "an absolute path",
});
