import { ConflictError } from "../base/errors.ts";
import type { AppSpec } from "../resources/app.ts";
import { claimsOf, type DomainClaim, lostClaims } from "../resources/domain-claims.ts";
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
  const before = new Set((stored ? claimsOf(name, stored.spec, baseDomain) : []).map(textOf));
  const added = claimsOf(name, wanted.spec, baseDomain).filter(
    (claim) => !before.has(textOf(claim)),
  );
  if (added.length === 0) return;
  const others = apps.filter(
    ({ metadata }) => metadata.name !== name && metadata.deletionTimestamp === null,
  );
  const lost = lostClaims(others, baseDomain);
  const owners = new Map(
    others
      .filter(({ metadata }) => !lost.has(metadata.name))
      .flatMap(({ metadata, spec }) =>
        claimsOf(metadata.name, spec, baseDomain).map(
          (claim) => [textOf(claim), metadata.name] as const,
        ),
      ),
  );
  for (const claim of added) {
    const owner = owners.get(textOf(claim));
    if (owner === undefined) continue;
    throw new ConflictError("conflict", `${textOf(claim)} belongs to the app "${owner}" already`, {
      hint: `choose another domain or ingress.pathPrefix, or take it from "${owner}" first`,
      details: { app: owner, domain: claim.domain },
    });
  }
}

/** Whether a write of these fields can give an App another domain. */
export function mayChangeDomains(fields: Readonly<Record<string, unknown>>): boolean {
  return ["domain", "ingress", "port"].some((key) => fields[key] !== undefined);
}

const textOf = ({ domain, pathPrefix }: DomainClaim) => `${domain}${pathPrefix}`;
