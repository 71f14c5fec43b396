import type { AppSpec } from "./app-spec.ts";
import { NO_DOMAIN } from "./field-schemas.ts";
import type { Resource } from "./resource.ts";

/** An App's claim to a host name, or to the part of it below a path. */
export interface DomainClaim {
  readonly domain: string;
  /** The path without a trailing slash; "" if the claim is to the whole host. */
  readonly pathPrefix: string;
  /** True if the host is redirected. No other App can then have a path of the host. */
  readonly redirects?: true;
}

/** The settings that determine the domains of Apps. */
export interface DomainSettings {
  /** The domain below which Apps without a domain get one. */
  readonly baseDomain: string;
  /** The domain of Berth's own API. No App can have it. */
  readonly apiDomain: string | undefined;
}

export interface ConflictingClaim extends DomainClaim {
  /** The name of the App that owns the domain; undefined if the domain belongs to the API. */
  readonly owner: string | undefined;
  /**
   * The claim of the App `owner`, if that claim differs from this one. The two claims can differ because a redirect
   * occupies a whole host.
   */
  readonly ownerClaim?: DomainClaim;
}

/** The fields of an App that determine its domains. */
export type ClaimingApp = Pick<Resource<"App">, "spec"> & {
  readonly metadata: Pick<
    Resource<"App">["metadata"],
    "name" | "creationTimestamp" | "deletionTimestamp"
  >;
};

/** Returns the main domain of an App; undefined if its spec says that it has none. */
export function getOwnDomain(
  app: string,
  spec: Pick<AppSpec, "domain">,
  baseDomain: string,
): string | undefined {
  return spec.domain === NO_DOMAIN ? undefined : (spec.domain ?? `${app}.${baseDomain}`);
}

/** Returns all domains of an App, except those that it redirects. The main domain is the first. */
export function listDomains(app: string, spec: AppSpec, baseDomain: string): string[] {
  const own = getOwnDomain(app, spec, baseDomain);
  return own === undefined ? [] : [own, ...(spec.ingress?.domains ?? [])];
}

/** Returns the claims of an App without duplicates. The claim to the main domain is the first. */
export function listClaims(app: string, spec: AppSpec, baseDomain: string): DomainClaim[] {
  if (!isReachedByDomain(spec)) return [];
  const pathPrefix = spec.ingress?.pathPrefix ?? "";
  const claims = [
    ...listDomains(app, spec, baseDomain).map((domain) => ({ domain, pathPrefix })),
    // A redirect occupies the whole host, so its claim has no path.
    ...(spec.ingress?.redirects ?? []).map(
      ({ from }): DomainClaim => ({ domain: from, pathPrefix: "", redirects: true }),
    ),
  ];
  return [...new Map(claims.map((claim) => [formatClaim(claim), claim])).values()];
}

/**
 * Returns true if two Apps cannot have the two claims, because the claims are equal, or because one of them
 * belongs to a redirect, which occupies the whole host.
 */
export function areClaimsInConflict(a: DomainClaim, b: DomainClaim): boolean {
  if (a.domain !== b.domain) return false;
  return a.pathPrefix === b.pathPrefix || a.redirects === true || b.redirects === true;
}

/** Returns true if claim `b` covers the host of `a`, as *.example.com covers a.example.com, on any path. */
export function isHostShared(a: DomainClaim, b: DomainClaim): boolean {
  if (a.domain === b.domain) return true;
  return b.domain.startsWith("*.") && a.domain.slice(a.domain.indexOf(".")) === b.domain.slice(1);
}

export function formatClaim({ domain, pathPrefix }: DomainClaim): string {
  return `${domain}${pathPrefix}`;
}

/**
 * Returns true if requests reach the App by a domain. An App without a port, such as a worker, only has domains if its
 * spec names them.
 */
export function isReachedByDomain(spec: AppSpec): boolean {
  if (spec.domain === NO_DOMAIN) return false;
  return (
    spec.port !== undefined || spec.domain !== undefined || spec.ingress?.domains !== undefined
  );
}

/**
 * Returns the Apps that cannot have their domains because an older App (by creation, then by name) has them. Each is
 * returned with the first claim in conflict. An App gets either all of its claims or none, so that it is never served
 * under only some of its names. No App gets the domain of the API. An App that is being deleted, or that cannot have
 * its own domains, does not block others.
 */
export function findLostClaims(
  apps: readonly ClaimingApp[],
  { baseDomain, apiDomain }: DomainSettings,
): ReadonlyMap<string, ConflictingClaim> {
  const owners = new Map<string, ConflictingClaim[]>();
  const lost = new Map<string, ConflictingClaim>();
  for (const { metadata, spec } of apps.toSorted(compareByAge)) {
    if (metadata.deletionTimestamp !== null) continue;
    const claims = listClaims(metadata.name, spec, baseDomain);
    const taken = findApiClaim(claims, apiDomain) ?? findFirstConflict(claims, owners);
    if (taken) {
      lost.set(metadata.name, taken);
      continue;
    }
    for (const claim of claims) {
      const held = owners.get(claim.domain) ?? [];
      owners.set(claim.domain, [...held, { ...claim, owner: metadata.name }]);
    }
  }
  return lost;
}

function findApiClaim(
  claims: readonly DomainClaim[],
  apiDomain: string | undefined,
): ConflictingClaim | undefined {
  const claim = claims.find(({ domain }) => domain === apiDomain);
  return claim && { ...claim, owner: undefined };
}

function findFirstConflict(
  claims: readonly DomainClaim[],
  owners: ReadonlyMap<string, readonly ConflictingClaim[]>,
): ConflictingClaim | undefined {
  for (const claim of claims) {
    const found = owners.get(claim.domain)?.find((other) => areClaimsInConflict(claim, other));
    if (!found) continue;
    const { owner, ...ownerClaim } = found;
    return formatClaim(claim) === formatClaim(ownerClaim)
      ? { ...claim, owner }
      : { ...claim, owner, ownerClaim };
  }
  return undefined;
}

/** Describes the conflict for users: the domain, its owner and the remedy. */
export function describeLostClaim({ owner, ownerClaim, ...claim }: ConflictingClaim): string {
  const text = formatClaim(claim);
  if (owner === undefined) return `${describeApiDomain(claim.domain)}: choose another domain`;
  if (ownerClaim?.redirects)
    return `${text} belongs to the app ${owner}, which is older and redirects all of ${ownerClaim.domain}: choose another domain, or remove the redirect from ${owner}`;
  if (ownerClaim)
    return `${text} cannot be redirected: ${formatClaim(ownerClaim)} belongs to the app ${owner}, which is older. Redirect another domain, or remove the domain from the spec of ${owner}`;
  return `${text} belongs to the app ${owner}, which is older: choose another domain or pathPrefix, or delete ${owner}`;
}

/** Explains why no App can have the domain of the API. */
export function describeApiDomain(domain: string): string {
  return `${domain} is the address of Berth's own API (the setting api_domain)`;
}

function compareByAge(a: ClaimingApp, b: ClaimingApp): number {
  return (
    compareText(a.metadata.creationTimestamp, b.metadata.creationTimestamp) ||
    compareText(a.metadata.name, b.metadata.name)
  );
}

function compareText(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}
