import type { AppSpec } from "./app.ts";
import type { Resource } from "./resource.ts";

/** What an App wants to have of a host name: all of it, or what is below a path. */
export interface DomainClaim {
  readonly domain: string;
  /** Without a slash at its end; "" for the whole host. */
  readonly pathPrefix: string;
  /** The host is sent elsewhere: no path of it can be another App's. */
  readonly redirects?: true;
}

export interface ClaimedBefore extends DomainClaim {
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
export function ownDomain(app: string, spec: Pick<AppSpec, "domain">, baseDomain: string): string {
  return spec.domain ?? `${app}.${baseDomain}`;
}

/** Every claim of an App, its own domain first; each once. */
export function claimsOf(app: string, spec: AppSpec, baseDomain: string): DomainClaim[] {
  if (!isReachedByDomain(spec)) return [];
  const pathPrefix = spec.ingress?.pathPrefix ?? "";
  const claims = [
    ...[ownDomain(app, spec, baseDomain), ...(spec.ingress?.domains ?? [])].map((domain) => ({
      domain,
      pathPrefix,
    })),
    // A redirect answers for the whole host, whatever the path.
    ...(spec.ingress?.redirects ?? []).map(
      ({ from }): DomainClaim => ({ domain: from, pathPrefix: "", redirects: true }),
    ),
  ];
  return [...new Map(claims.map((claim) => [textOfClaim(claim), claim])).values()];
}

/** Whether two Apps cannot have both: the same, or a path of a host that the other one redirects. */
export function clash(a: DomainClaim, b: DomainClaim): boolean {
  if (a.domain !== b.domain) return false;
  return a.pathPrefix === b.pathPrefix || a.redirects === true || b.redirects === true;
}

export function textOfClaim({ domain, pathPrefix }: DomainClaim): string {
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
export function lostClaims(
  apps: readonly ClaimingApp[],
  baseDomain: string,
): ReadonlyMap<string, ClaimedBefore> {
  const owners = new Map<string, ClaimedBefore[]>();
  const lost = new Map<string, ClaimedBefore>();
  for (const { metadata, spec } of apps.toSorted(byAge)) {
    if (metadata.deletionTimestamp !== null) continue;
    const claims = claimsOf(metadata.name, spec, baseDomain);
    const taken = firstClash(claims, owners);
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

function firstClash(
  claims: readonly DomainClaim[],
  owners: ReadonlyMap<string, readonly ClaimedBefore[]>,
): ClaimedBefore | undefined {
  for (const claim of claims) {
    const found = owners.get(claim.domain)?.find((other) => clash(claim, other));
    if (!found) continue;
    const { owner, ...beside } = found;
    return textOfClaim(claim) === textOfClaim(beside)
      ? { ...claim, owner }
      : { ...claim, owner, beside };
  }
  return undefined;
}

/** For people: what is taken, by whom, and what to do. */
export function lostClaimMessage({ owner, beside, ...claim }: ClaimedBefore): string {
  const text = textOfClaim(claim);
  if (beside?.redirects)
    return `${text} belongs to the app ${owner}, which is older and redirects all of ${beside.domain}: choose another domain, or take the redirect out of ${owner}`;
  if (beside)
    return `${text} cannot be redirected: ${textOfClaim(beside)} belongs to the app ${owner}, which is older. Redirect another domain, or take it from ${owner}`;
  return `${text} belongs to the app ${owner}, which is older: choose another domain or pathPrefix, or delete ${owner}`;
}

function byAge(a: ClaimingApp, b: ClaimingApp): number {
  return (
    compare(a.metadata.creationTimestamp, b.metadata.creationTimestamp) ||
    compare(a.metadata.name, b.metadata.name)
  );
}

function compare(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}
