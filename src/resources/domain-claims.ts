import type { AppSpec } from "./app-spec.ts";
import type { Resource } from "./resource.ts";

/** What an App wants to have of a host name: all of it, or what is below a path. */
export interface DomainClaim {
  readonly domain: string;
  /** Without a slash at its end; "" for the whole host. */
  readonly pathPrefix: string;
  /** The host is sent elsewhere: no path of it can be another App's. */
  readonly redirects?: true;
}

export interface ConflictingClaim extends DomainClaim {
  /** The App that has it. */
  readonly owner: string;
  /** What that App has, where it is not the same: only a redirect leaves no room for it. */
  readonly beside?: DomainClaim;
}

/** What the decision needs of an App. */
export type ClaimingApp = Pick<Resource<"App">, "spec"> & {
  readonly metadata: Pick<
    Resource<"App">["metadata"],
    "name" | "creationTimestamp" | "deletionTimestamp"
  >;
};

/** The domain that people are told. */
export function getOwnDomain(
  app: string,
  spec: Pick<AppSpec, "domain">,
  baseDomain: string,
): string {
  return spec.domain ?? `${app}.${baseDomain}`;
}

/** Every claim of an App, its own domain first; each once. */
export function listClaims(app: string, spec: AppSpec, baseDomain: string): DomainClaim[] {
  if (!isReachedByDomain(spec)) return [];
  const pathPrefix = spec.ingress?.pathPrefix ?? "";
  const claims = [
    ...[getOwnDomain(app, spec, baseDomain), ...(spec.ingress?.domains ?? [])].map((domain) => ({
      domain,
      pathPrefix,
    })),
    // A redirect answers for the whole host, whatever the path.
    ...(spec.ingress?.redirects ?? []).map(
      ({ from }): DomainClaim => ({ domain: from, pathPrefix: "", redirects: true }),
    ),
  ];
  return [...new Map(claims.map((claim) => [formatClaim(claim), claim])).values()];
}

/** Whether two Apps cannot have both: the same, or a path of a host that the other one redirects. */
export function areClaimsInConflict(a: DomainClaim, b: DomainClaim): boolean {
  if (a.domain !== b.domain) return false;
  return a.pathPrefix === b.pathPrefix || a.redirects === true || b.redirects === true;
}

export function formatClaim({ domain, pathPrefix }: DomainClaim): string {
  return `${domain}${pathPrefix}`;
}

/** An App without a port, such as a worker, is led to only where its spec names a domain. */
export function isReachedByDomain(spec: AppSpec): boolean {
  return (
    spec.port !== undefined || spec.domain !== undefined || spec.ingress?.domains !== undefined
  );
}

/**
 * The Apps that cannot have their domains because an older one has them (by creation, then by name),
 * each with the first claim that it loses. An App has all of its claims or none, so that it never
 * stands under half of its names; one that is being deleted, or that lost, holds nothing.
 */
export function findLostClaims(
  apps: readonly ClaimingApp[],
  baseDomain: string,
): ReadonlyMap<string, ConflictingClaim> {
  const owners = new Map<string, ConflictingClaim[]>();
  const lost = new Map<string, ConflictingClaim>();
  for (const { metadata, spec } of apps.toSorted(compareByAge)) {
    if (metadata.deletionTimestamp !== null) continue;
    const claims = listClaims(metadata.name, spec, baseDomain);
    const taken = findFirstConflict(claims, owners);
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

function findFirstConflict(
  claims: readonly DomainClaim[],
  owners: ReadonlyMap<string, readonly ConflictingClaim[]>,
): ConflictingClaim | undefined {
  for (const claim of claims) {
    const found = owners.get(claim.domain)?.find((other) => areClaimsInConflict(claim, other));
    if (!found) continue;
    const { owner, ...beside } = found;
    return formatClaim(claim) === formatClaim(beside)
      ? { ...claim, owner }
      : { ...claim, owner, beside };
  }
  return undefined;
}

/** For people: what is taken, by whom, and what to do. */
export function describeLostClaim({ owner, beside, ...claim }: ConflictingClaim): string {
  const text = formatClaim(claim);
  if (beside?.redirects)
    return `${text} belongs to the app ${owner}, which is older and redirects all of ${beside.domain}: choose another domain, or take the redirect out of ${owner}`;
  if (beside)
    return `${text} cannot be redirected: ${formatClaim(beside)} belongs to the app ${owner}, which is older. Redirect another domain, or take it from ${owner}`;
  return `${text} belongs to the app ${owner}, which is older: choose another domain or pathPrefix, or delete ${owner}`;
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
