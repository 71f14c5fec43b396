import {
  type DomainSettings,
  describeLostClaim,
  findLostClaims,
} from "../../resources/domain-claims.ts";
import type { Store } from "../../store/store.ts";
import { PasswordHashes } from "./password-hashes.ts";
import { isTableOnly, resolveSite, type Site, type SiteRefusal, siteDigest } from "./site.ts";

export interface SitePlan {
  /** The sites that can be served, sorted by name. */
  readonly sites: readonly Site[];
  /** The reasons why Apps cannot be served, by App. */
  readonly refusals: ReadonlyMap<string, SiteRefusal>;
  /** A digest of the inputs of each App's site (its proxy settings), by App. Includes Apps that are being deleted. */
  readonly apps: ReadonlyMap<string, string>;
}

/** Computes the proxy's settings for each App (its site) from the store. */
export class SitePlanner {
  readonly #store: Pick<Store, "list" | "secrets">;
  readonly #domains: DomainSettings;
  readonly #hashes: PasswordHashes;

  constructor(options: {
    readonly store: Pick<Store, "list" | "secrets" | "instanceId">;
    readonly domains: DomainSettings;
  }) {
    this.#store = options.store;
    this.#domains = options.domains;
    this.#hashes = new PasswordHashes(options.store.instanceId);
  }

  async planSites(): Promise<SitePlan> {
    const apps = this.#store.list("App");
    const lost = findLostClaims(apps, this.#domains);
    const sites: Site[] = [];
    const refusals = new Map<string, SiteRefusal>();
    for (const { metadata, spec } of apps) {
      const { name } = metadata;
      // An App that is being deleted is not served any more, and other Apps may use its domains at once.
      if (metadata.deletionTimestamp !== null) continue;
      const claim = lost.get(name);
      const site = claim
        ? { reason: "DomainTaken", message: describeLostClaim(claim) }
        : await resolveSite(name, spec, {
            baseDomain: this.#domains.baseDomain,
            reveal: (secret) => this.#store.secrets.reveal(secret),
            hash: (app, user, password) => this.#hashes.hash(app, user, password),
          });
      if ("reason" in site) refusals.set(name, site);
      else sites.push(site);
    }
    const digests = apps.map((app) => [app.metadata.name, siteDigest(app)] as const);
    return { sites, refusals, apps: new Map(digests) };
  }
}

/** Maps hosts to Apps, for sites that need only the route table. */
export function mapHostsToApps(sites: readonly Site[]): Map<string, string> {
  return new Map(
    sites.filter(isTableOnly).flatMap((site) => site.domains.map((domain) => [domain, site.app])),
  );
}
