import { ConflictError } from "../base/errors.ts";
import type { AppSpec } from "./app-spec.ts";
import { findDependencyCycle } from "./dependency-cycle.ts";
import {
  areClaimsInConflict,
  type DomainClaim,
  type DomainSettings,
  describeApiDomain,
  findLostClaims,
  formatClaim,
  listClaims,
} from "./domain-claims.ts";
import { findHostNameConflict } from "./host-name-conflict.ts";
import { formatPointer } from "./json-pointer.ts";
import { findReservedPort, type ReservedPort } from "./reserved-ports.ts";
import type { Resource } from "./resource.ts";

/** The settings of the server that the admission check of Apps depends on. */
export interface AdmissionSettings extends DomainSettings {
  /** The ports of the machine on which Berth itself listens. */
  readonly reservedPorts: readonly ReservedPort[];
}

/** The part of the store that the admission check of Apps reads. */
export interface AppReader {
  get(kind: "App", name: string): Resource<"App"> | undefined;
  list(kind: "App"): readonly Resource<"App">[];
}

/**
 * Thrown for a valid spec that conflicts with other Apps or with Berth itself. The spec may be admitted later, when
 * those Apps or the settings have changed.
 */
export class AdmissionError extends ConflictError {
  readonly app: Resource<"App">;
  /** The field in conflict, as a JSON Pointer. */
  readonly path: string;

  constructor(
    app: Resource<"App">,
    path: string,
    message: string,
    options: { hint?: string; details?: unknown },
  ) {
    super("conflict", message, options);
    this.app = app;
    this.path = path;
  }
}

/**
 * Checks Apps against all others before they are written: an App gets no domain of another App, no port of Berth and
 * no host name that leads to another App, and does not depend on itself. A conflict that the stored App already has is allowed, so that it does not block other
 * changes. An AppAdmission lists all Apps only when it is created, so each request or batch needs a new one.
 */
export class AppAdmission {
  readonly #store: Pick<AppReader, "get">;
  readonly #settings: AdmissionSettings;
  readonly #apps = new Map<string, Resource<"App">>();
  readonly #claims = new Map<string, readonly DomainClaim[]>();
  readonly #claimants = new Map<string, Set<string>>();

  constructor(store: AppReader, settings: AdmissionSettings) {
    this.#store = store;
    this.#settings = settings;
    const apps = store.list("App");
    const lost = findLostClaims(apps, settings);
    for (const app of apps) {
      this.expect(app);
      if (lost.has(app.metadata.name)) this.#setClaims(app.metadata.name, []);
    }
  }

  /** Makes later checks of other Apps use `app` instead of the stored App, because `app` is about to be written. */
  expect(app: Resource<"App">): void {
    const { metadata, spec } = app;
    this.#apps.set(metadata.name, app);
    const isLeaving = metadata.deletionTimestamp !== null;
    this.#setClaims(
      metadata.name,
      isLeaving ? [] : listClaims(metadata.name, spec, this.#settings.baseDomain),
    );
  }

  /** Makes later checks of other Apps ignore this App. */
  ignore(name: string): void {
    this.#apps.delete(name);
    this.#setClaims(name, []);
  }

  /** Undoes `expect`. */
  restore(name: string): void {
    const stored = this.#store.get("App", name);
    if (stored) this.expect(stored);
    else this.ignore(name);
  }

  /**
   * Throws AdmissionError if a domain that the App newly claims is taken, if a port that it newly publishes is one of
   * Berth's own ports, if a host name leads to another App, or if a new dependency of the App closes a cycle.
   */
  readonly assertAdmissible = (app: Resource<"App">): void => {
    this.#assertDomainsFree(app);
    this.#assertPortsFree(app);
    this.#assertHostNameFree(app);
    this.#assertNoDependencyCycle(app);
  };

  #assertDomainsFree(app: Resource<"App">): void {
    const { metadata, spec } = app;
    const stored = this.#store.get("App", metadata.name);
    const { baseDomain, apiDomain } = this.#settings;
    const before = stored ? listClaims(metadata.name, stored.spec, baseDomain) : [];
    for (const claim of listClaims(metadata.name, spec, baseDomain)) {
      if (before.some((earlier) => isSameClaim(earlier, claim))) continue;
      if (claim.domain === apiDomain)
        throw new AdmissionError(app, locateClaim(spec, claim), describeApiDomain(claim.domain), {
          hint: "choose another domain for the app",
          details: { domain: claim.domain },
        });
      const taken = this.#findConflict(metadata.name, claim);
      if (!taken) continue;
      const { owner } = taken;
      throw new AdmissionError(
        app,
        locateClaim(spec, claim),
        `${formatClaim(taken.claim)} belongs to the app "${owner}" already`,
        {
          hint: `choose another domain or ingress.pathPrefix, or remove the domain from the spec of "${owner}" first`,
          details: { app: owner, domain: claim.domain },
        },
      );
    }
  }

  #findConflict(app: string, claim: DomainClaim) {
    for (const owner of this.#claimants.get(claim.domain) ?? []) {
      const claims = owner === app ? [] : (this.#claims.get(owner) ?? []);
      const taken = claims.find((other) => areClaimsInConflict(claim, other));
      if (taken) return { owner, claim: taken };
    }
    return undefined;
  }

  #assertPortsFree(app: Resource<"App">): void {
    const { metadata, spec } = app;
    const { reservedPorts } = this.#settings;
    const before = this.#store.get("App", metadata.name)?.spec.ports ?? [];
    const known = before.map((port) => findReservedPort(port, reservedPorts));
    for (const [index, port] of (spec.ports ?? []).entries()) {
      const taken = findReservedPort(port, reservedPorts);
      if (!taken || known.includes(taken)) continue;
      throw new AdmissionError(
        app,
        formatPointer(["spec", "ports", String(index), "host"]),
        `port ${port.host} of the machine belongs to ${taken.owner}`,
        { hint: `choose another port for spec.ports[${index}].host`, details: { port: port.host } },
      );
    }
  }

  #assertHostNameFree(app: Resource<"App">): void {
    const stored = this.#store.get("App", app.metadata.name);
    const conflict = findHostNameConflict(app, stored, this.#apps.values());
    if (!conflict) return;
    const { owner, name, field } = conflict;
    const details = { app: owner, hostname: name };
    if (field === "hostname")
      throw new AdmissionError(
        app,
        "/spec/hostname",
        `the host name ${name} is the name of the app "${owner}", whose requests this app would get too`,
        { hint: "choose another hostname, or make the name one of spec.aliases", details },
      );
    throw new AdmissionError(
      app,
      "/metadata/name",
      `the app "${owner}" has the host name ${name}, so it would get requests to this app too`,
      { hint: `choose another name, or change spec.hostname of "${owner}" first`, details },
    );
  }

  #assertNoDependencyCycle(app: Resource<"App">): void {
    const { name } = app.metadata;
    const { dependsOn = [] } = app.spec;
    const before = this.#store.get("App", name)?.spec.dependsOn ?? [];
    if (dependsOn.every((other) => before.includes(other))) return;
    const cycle = findDependencyCycle(
      name,
      dependsOn,
      (other) => this.#apps.get(other)?.spec.dependsOn ?? [],
    );
    if (!cycle) return;
    const next = cycle[1] ?? name;
    throw new AdmissionError(
      app,
      formatPointer(["spec", "dependsOn", String(dependsOn.indexOf(next))]),
      `dependsOn has a cycle: ${cycle.join(" -> ")}`,
      {
        hint: `each of these apps would wait for the next one; remove ${next} from dependsOn of ${name}`,
      },
    );
  }

  #setClaims(app: string, claims: readonly DomainClaim[]): void {
    for (const { domain } of this.#claims.get(app) ?? []) this.#claimants.get(domain)?.delete(app);
    this.#claims.set(app, claims);
    for (const { domain } of claims)
      this.#claimants.set(domain, (this.#claimants.get(domain) ?? new Set()).add(app));
  }
}

function isSameClaim(a: DomainClaim, b: DomainClaim): boolean {
  return formatClaim(a) === formatClaim(b) && a.redirects === b.redirects;
}

/** Returns the pointer of the field that makes the claim. The claim to the default domain comes from the App's name. */
function locateClaim({ domain, ingress }: AppSpec, claim: DomainClaim): string {
  if (claim.redirects) {
    const index = (ingress?.redirects ?? []).findIndex(({ from }) => from === claim.domain);
    return formatPointer(["spec", "ingress", "redirects", String(index), "from"]);
  }
  if (domain === claim.domain) return "/spec/domain";
  const index = (ingress?.domains ?? []).indexOf(claim.domain);
  return index === -1
    ? "/metadata/name"
    : formatPointer(["spec", "ingress", "domains", String(index)]);
}
