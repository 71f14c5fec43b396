import { ConflictError } from "../base/errors.ts";
import type { PlannedResource } from "../controller/port.ts";
import { findDependencyCycle } from "../resources/dependency-cycle.ts";
import {
  areClaimsInConflict,
  type DomainClaim,
  findLostClaims,
  formatClaim,
  listClaims,
} from "../resources/domain-claims.ts";
import type { Resource } from "../resources/resource.ts";
import type { Admission, Store } from "../store/store.ts";
import type { ApiContext } from "./api-context.ts";

/**
 * Creates an admission check for the store that refuses a write which would give an App a domain of another App, or
 * make it depend on itself. It throws ConflictError `conflict`.
 */
export function createAppAdmission(context: ApiContext): Admission<"App"> {
  const { store } = context;
  return (app) => {
    assertDomainsFree(context, app, () => store.list("App"));
    assertNoDependencyCycle(store, app, (name) => store.get("App", name));
  };
}

/** Checks all Apps of a request that writes several at once, each as it would be afterwards. */
export function assertAppsAdmissible(
  context: ApiContext,
  planned: readonly PlannedResource[],
): void {
  const written = planned.map(({ resource }) => resource).filter(isApp);
  const names = new Set(written.map(({ metadata }) => metadata.name));
  const others = context.store.list("App").filter(({ metadata }) => !names.has(metadata.name));
  const all = [...others, ...written];
  for (const app of written) {
    assertDomainsFree(context, app, () => all);
    assertNoDependencyCycle(context.store, app, (name) =>
      all.find(({ metadata }) => metadata.name === name),
    );
  }
}

/** A cycle that the App already had may stay, so that one made by files does not block other changes. */
function assertNoDependencyCycle(
  store: Store,
  { metadata: { name }, spec }: Resource<"App">,
  get: (app: string) => Resource<"App"> | undefined,
): void {
  const { dependsOn = [] } = spec;
  const cycle = findDependencyCycle(name, dependsOn, (app) => get(app)?.spec.dependsOn ?? []);
  const before = store.get("App", name)?.spec.dependsOn ?? [];
  if (cycle && !dependsOn.every((app) => before.includes(app)))
    throw new ConflictError("conflict", `dependsOn has a cycle: ${cycle.join(" -> ")}`, {
      hint: `each of them would wait for the next one; remove ${cycle[1]} from dependsOn of ${name}`,
    });
}

function isApp(resource: Resource): resource is Resource<"App"> {
  return resource.kind === "App";
}

/** Domains that the App already had may stay, so that a conflict made by files does not block other changes. */
function assertDomainsFree(
  { store, config }: ApiContext,
  wanted: Resource<"App">,
  listApps: () => readonly Resource<"App">[],
): void {
  const { baseDomain } = config;
  const { name } = wanted.metadata;
  const stored = store.get("App", name);
  const before = stored ? listClaims(name, stored.spec, baseDomain) : [];
  const added = listClaims(name, wanted.spec, baseDomain).filter(
    (claim) => !before.some((earlier) => isSameClaim(earlier, claim)),
  );
  if (added.length === 0) return;
  const others = listApps().filter(
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

function isSameClaim(a: DomainClaim, b: DomainClaim): boolean {
  return formatClaim(a) === formatClaim(b) && a.redirects === b.redirects;
}
