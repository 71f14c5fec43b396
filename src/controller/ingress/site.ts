import { hashJson } from "../../base/canonical-json.ts";
import type { AppSpec } from "../../resources/app-spec.ts";
import { getOwnDomain, isReachedByDomain, listClaims } from "../../resources/domain-claims.ts";
import type { Resource } from "../../resources/resource.ts";
import { maintenancePage } from "./error-pages.ts";

/** What the proxy does with the requests of one App, worked out as far as its configuration needs it. */
export interface Site {
  readonly app: string;
  /** The App's own first; may begin with `*.`. Without those that redirect. */
  readonly domains: readonly string[];
  /** Without a slash at its end; "" for everything. */
  readonly pathPrefix: string;
  readonly stripPrefix: boolean;
  readonly redirects: readonly SiteRedirect[];
  /** Who may come in; undefined: everybody. */
  readonly users: readonly SiteUser[] | undefined;
  /** A page that is shown in place of the App. */
  readonly maintenance: string | undefined;
  /** Certificates may be had for its domains. */
  readonly https: boolean;
}

export interface SiteRedirect {
  readonly from: string;
  /** Without a slash at its end; undefined: the App's own domain, by the scheme of the request. */
  readonly to: string | undefined;
  readonly permanent: boolean;
}

export interface SiteUser {
  readonly name: string;
  readonly hash: string;
}

/** Why an App is not led to. `reason` is a word of its Routed condition. */
export interface SiteRefusal {
  readonly reason: string;
  readonly message: string;
}

export interface SiteDependencies {
  readonly baseDomain: string;
  /** Values of a Secret; undefined where there is none of that name. */
  readonly reveal: (secret: string) => Readonly<Record<string, string>> | undefined;
  readonly hash: (app: string, user: string, password: string) => Promise<string>;
}

/** Equal for equal sites of the same App: of what a site is made, beside Secrets and other Apps. */
export function siteDigest({ metadata, spec }: Resource<"App">): string {
  const { domain, port, ingress } = spec;
  return hashJson({ uid: metadata.uid, domain, port, ingress });
}

export async function resolveSite(
  app: string,
  spec: AppSpec,
  sources: SiteDependencies,
): Promise<Site | SiteRefusal> {
  if (!isReachedByDomain(spec))
    return {
      reason: "NoPort",
      message: "no requests are led to the app, because it has no port: set spec.port",
    };
  const own = getOwnDomain(app, spec, sources.baseDomain);
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
      message: `${nowhere.from} cannot redirect to the app's own domain, which is ${own}: take it out of spec.ingress.redirects, or give it a "to"`,
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

/** Nothing but the table is needed for it: it comes and goes without a change of the configuration. */
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
 * Names that no public authority gives certificates for: those of this machine and of local networks
 * (RFC 6761, 6762, 8375 and ICANN's .internal), and names without a dot.
 */
export function isInternalName(domain: string): boolean {
  return new RegExp(internalPattern).test(domain.replace(/^\*\./, ""));
}

/** For Go and JavaScript alike. */
export const internalPattern =
  "^(?:[a-z0-9-]+\\.)*(?:localhost|local|internal|test|invalid|example|onion|home\\.arpa)$|^[a-z0-9-]+$";

async function resolveUsers(
  app: string,
  secret: string,
  { reveal, hash }: SiteDependencies,
): Promise<SiteUser[] | SiteRefusal> {
  const values = reveal(secret);
  if (!values)
    return {
      reason: "SecretNotFound",
      message: `spec.ingress.basicAuth needs the Secret ${secret}, which is not there: make it with user names as keys and passwords as values`,
    };
  const entries = Object.entries(values).toSorted(([a], [b]) => (a < b ? -1 : 1));
  const empty = entries.find(([, password]) => password === "");
  if (entries.length === 0 || empty)
    return {
      reason: "SecretInvalid",
      message: empty
        ? `the user ${empty[0]} in the Secret ${secret} has no password`
        : `the Secret ${secret} names no user: its keys are user names, its values passwords`,
    };
  const users: SiteUser[] = [];
  for (const [name, password] of entries)
    users.push({ name, hash: await hash(app, name, password) });
  return users;
}
