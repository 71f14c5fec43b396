import { hashJson } from "../../base/canonical-json.ts";
import type { AppSpec } from "../../resources/app-spec.ts";
import { getOwnDomain, isReachedByDomain, listClaims } from "../../resources/domain-claims.ts";
import type { Resource } from "../../resources/resource.ts";
import { maintenancePage } from "./error-pages.ts";

/** The proxy's settings for one App. */
export interface Site {
  readonly app: string;
  /** The domains, except those that redirect. The App's own domain is the first. A domain may begin with `*.`. */
  readonly domains: readonly string[];
  /** The path prefix without a trailing slash; "" for every path. */
  readonly pathPrefix: string;
  readonly stripPrefix: boolean;
  readonly redirects: readonly SiteRedirect[];
  /** The users who may access the App; undefined if everyone may. */
  readonly users: readonly SiteUser[] | undefined;
  /** A page that is shown instead of the App. */
  readonly maintenance: string | undefined;
  /** True if the domains are served over https, with certificates. */
  readonly https: boolean;
}

export interface SiteRedirect {
  readonly from: string;
  /**
   * The URL to which requests are redirected, without a trailing slash; undefined to redirect them to the App's own
   * domain with the scheme of the request.
   */
  readonly to: string | undefined;
  readonly permanent: boolean;
}

export interface SiteUser {
  readonly name: string;
  readonly hash: string;
}

/** The reason why an App is not served. `reason` becomes the reason of its Routed condition. */
export interface SiteRefusal {
  readonly reason: string;
  readonly message: string;
}

export interface SiteDependencies {
  readonly baseDomain: string;
  /** Returns the values of a Secret; undefined if it does not exist. */
  readonly reveal: (secret: string) => Readonly<Record<string, string>> | undefined;
  readonly hash: (app: string, user: string, password: string) => Promise<string>;
}

/** Returns a digest of the inputs of an App's site. Secrets and other Apps do not affect the digest. */
export function siteDigest({ metadata, spec }: Resource<"App">): string {
  const { domain, port, ingress } = spec;
  return hashJson({ uid: metadata.uid, domain, port, ingress });
}

export async function resolveSite(
  app: string,
  spec: AppSpec,
  sources: SiteDependencies,
): Promise<Site | SiteRefusal> {
  const own = getOwnDomain(app, spec, sources.baseDomain);
  if (own === undefined)
    return { reason: "NoDomain", message: "the app gets no requests from outside: domain is none" };
  if (!isReachedByDomain(spec))
    return {
      reason: "NoPort",
      message: "the app gets no requests, because it has no port: set spec.port",
    };
  const options = spec.ingress ?? {};
  const redirects = (options.redirects ?? []).map(
    (redirect): SiteRedirect => ({
      from: redirect.from,
      to: redirect.to?.replace(/\/+$/, ""),
      permanent: redirect.permanent ?? false,
    }),
  );
  const nowhere = redirects.find(
    ({ from, to }) => to === undefined && (from === own || isWildcard(own)),
  );
  if (nowhere)
    return {
      reason: "RedirectLoop",
      message: `${nowhere.from} cannot redirect to the app's own domain, which is ${own}: remove it from spec.ingress.redirects, or set its "to"`,
    };
  const away = new Set(redirects.map(({ from }) => from));
  const domains = listClaims(app, spec, sources.baseDomain).map(({ domain }) => domain);
  const users = options.basicAuth
    ? await resolveUsers(app, options.basicAuth.secret, sources)
    : undefined;
  if (users && "reason" in users) return users;
  const { maintenance } = options;
  return {
    app,
    domains: [...new Set(domains)].filter((domain) => !away.has(domain)),
    pathPrefix: options.pathPrefix ?? "",
    stripPrefix: options.stripPrefix ?? false,
    redirects,
    users,
    maintenance:
      maintenance === undefined || maintenance === false
        ? undefined
        : maintenancePage(maintenance === true ? {} : maintenance),
    https: options.https !== "off",
  };
}

/**
 * True if the route table contains all settings of the site, so that the site adds nothing to the configuration of
 * Caddy.
 */
export function isTableOnly(site: Site): boolean {
  return (
    site.pathPrefix === "" &&
    site.redirects.length === 0 &&
    site.users === undefined &&
    site.maintenance === undefined &&
    !site.domains.some(isWildcard)
  );
}

export function isWildcard(domain: string): boolean {
  return domain.startsWith("*.");
}

/**
 * True for names without public certificates: those of this machine and of local networks (RFC 6761, 6762, 8375 and
 * ICANN's .internal), and names without a dot.
 */
export function isInternalName(domain: string): boolean {
  return new RegExp(internalPattern).test(domain.replace(/^\*\./, ""));
}

/** Matches the domains for which `isInternalName` returns true, with a syntax that Go and JavaScript share. */
export const internalPattern =
  "^(?:[a-z0-9-]+\\.)*(?:localhost|local|internal|test|invalid|example|onion|home\\.arpa)$|^[a-z0-9-]+$";

/**
 * Returns true if a password contains a control character. Such a password is not valid in HTTP (RFC 7617),
 * and bcrypt cannot distinguish an empty password from a zero byte.
 */
function hasControlCharacter(password: string): boolean {
  return /\p{Cc}/u.test(password);
}

/** The maximum length of a password in bytes. bcrypt ignores all further bytes. */
const PASSWORD_BYTES_MAX = 72;

async function resolveUsers(
  app: string,
  secret: string,
  { reveal, hash }: SiteDependencies,
): Promise<SiteUser[] | SiteRefusal> {
  const values = reveal(secret);
  if (!values)
    return {
      reason: "SecretNotFound",
      message: `spec.ingress.basicAuth needs the Secret ${secret}, which does not exist: create it with user names as keys and passwords as values`,
    };
  const entries = Object.entries(values).toSorted(([a], [b]) => (a < b ? -1 : 1));
  const empty = entries.find(([, password]) => password === "");
  if (entries.length === 0 || empty)
    return {
      reason: "SecretInvalid",
      message: empty
        ? `the user ${empty[0]} in the Secret ${secret} has no password`
        : `the Secret ${secret} contains no user: its keys must be user names, its values passwords`,
    };
  const long = entries.find(([, password]) => Buffer.byteLength(password) > PASSWORD_BYTES_MAX);
  if (long)
    return {
      reason: "SecretInvalid",
      message: `the password of the user ${long[0]} in the Secret ${secret} is longer than ${PASSWORD_BYTES_MAX} bytes, and bcrypt would ignore the rest: choose a shorter one`,
    };
  const control = entries.find(([, password]) => hasControlCharacter(password));
  if (control)
    return {
      reason: "SecretInvalid",
      message: `the password of the user ${control[0]} in the Secret ${secret} contains a control character, such as a line break at its end, which no browser sends: remove it`,
    };
  const users: SiteUser[] = [];
  for (const [name, password] of entries)
    users.push({ name, hash: await hash(app, name, password) });
  return users;
}
