import { ConflictError } from "../base/errors.ts";
import type { AppSpec } from "../resources/app-spec.ts";
import {
  areClaimsInConflict,
  type DomainClaim,
  findLostClaims,
  formatClaim,
  listClaims,
} from "../resources/domain-claims.ts";
import type { Resource } from "../resources/resource.ts";

/**
 * Refuses a write that would give an App a domain that another one has. What the App had before may
 * stay, so that a conflict made by files holds up no other change. `apps` are those of the store, or
 * as a larger write would leave them. Throws ConflictError `conflict`.
 */
export function assertDomainsFree(
  wanted: { readonly name: string; readonly spec: AppSpec },
  apps: readonly Resource<"App">[],
  stored: Resource<"App"> | undefined,
  baseDomain: string,
): void {
  const { name } = wanted;
  const before = stored ? listClaims(name, stored.spec, baseDomain) : [];
  const added = listClaims(name, wanted.spec, baseDomain).filter(
    (claim) => !before.some((earlier) => isSameClaim(earlier, claim)),
  );
  if (added.length === 0) return;
  const others = apps.filter(
    ({ metadata }) => metadata.name !== name && metadata.deletionTimestamp === null,
  );
  const lost = findLostClaims(others, baseDomain);
  const held = others
    .filter(({ metadata }) => !lost.has(metadata.name))
    .flatMap(({ metadata, spec }) =>
      listClaims(metadata.name, spec, baseDomain).map((claim) => ({ claim, owner: metadata.name })),
    );
  for (const claim of added) {
    const taken = held.find((other) => areClaimsInConflict(claim, other.claim));
    if (!taken) continue;
    const { owner } = taken;
    const what = formatClaim(taken.claim);
    throw new ConflictError("conflict", `${what} belongs to the app "${owner}" already`, {
      hint: `choose another domain or ingress.pathPrefix, or take it from "${owner}" first`,
      details: { app: owner, domain: claim.domain },
    });
  }
}

/** Whether a write of these fields can give an App another domain. */
export function mayChangeDomains(fields: Readonly<Record<string, unknown>>): boolean {
  return ["domain", "ingress", "port"].some((key) => fields[key] !== undefined);
}

function isSameClaim(a: DomainClaim, b: DomainClaim): boolean {
  return formatClaim(a) === formatClaim(b) && a.redirects === b.redirects;
}
