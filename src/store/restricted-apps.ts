import {
  type DomainClaim,
  formatClaim,
  isHostShared,
  listClaims,
} from "../resources/domain-claims.ts";
import { listPrivilegedFields, type PrivilegedField } from "../resources/privileged-fields.ts";
import type { Resource } from "../resources/resource.ts";
import { listAllReferencedSecrets } from "../resources/secret-names.ts";
import type { HostPaths } from "./host-paths.ts";
import type { RevisionLog } from "./store.ts";

type AppSpec = Resource<"App">["spec"];

export interface RestrictedAppsOptions {
  readonly hostPaths: Pick<HostPaths, "isAllowed">;
  readonly listApps: () => readonly Resource<"App">[];
  readonly revisions: Pick<RevisionLog, "get" | "list" | "listAppsWithHostPaths">;
  /** The domain below which Apps have their default domains. */
  readonly baseDomain: string;
}

/** An App that uses a Secret, and has a mount that the scope `write` does not allow. */
export interface SecretHolder {
  readonly secret: string;
  readonly app: string;
  readonly mount: PrivilegedField;
}

/**
 * Finds the Apps that mount folders of the machine for which the scope `write` is not sufficient, and the Secrets,
 * hosts and folders that these Apps share with others.
 */
export class RestrictedApps {
  readonly #options: RestrictedAppsOptions;

  constructor(options: RestrictedAppsOptions) {
    this.#options = options;
  }

  /** Returns the first mount of the App that the scope `write` does not allow; undefined if there is none. */
  findMount(app: Resource<"App">): PrivilegedField | undefined {
    return this.#listSpecs(app).flatMap((spec) => this.listMounts(spec))[0];
  }

  /** Lists the mounts of a spec that the scope `write` does not allow. */
  listMounts(spec: AppSpec): readonly PrivilegedField[] {
    return listPrivilegedFields(spec).filter(
      ({ type, path }) => type === "hostPath" && !this.#options.hostPaths.isAllowed(path),
    );
  }

  /**
   * Finds an App, except `except`, that uses one of these Secrets and mounts a folder that the scope `write` does not
   * allow. The check covers all versions of each App that run or may run again.
   */
  findSecretHolder(
    secrets: readonly string[],
    except: string | undefined,
  ): SecretHolder | undefined {
    if (secrets.length === 0) return undefined;
    const { listApps, revisions } = this.#options;
    const withHostPaths = revisions.listAppsWithHostPaths();
    for (const app of listApps()) {
      const { name } = app.metadata;
      if (name === except) continue;
      if (!withHostPaths.has(name) && this.listMounts(app.spec).length === 0) continue;
      const specs = this.#listSpecs(app);
      const mount = specs.flatMap((spec) => this.listMounts(spec))[0];
      if (!mount) continue;
      const used = new Set(specs.flatMap(listAllReferencedSecrets));
      const secret = secrets.find((one) => used.has(one));
      if (secret !== undefined) return { secret, app: name, mount };
    }
    return undefined;
  }

  /** Lists the claims to domains that an App would have, and that it did not have in `before`. */
  listAddedClaims(
    name: string,
    spec: AppSpec,
    before: Resource<"App"> | undefined,
  ): readonly DomainClaim[] {
    const { baseDomain } = this.#options;
    const kept = before ? listClaims(name, before.spec, baseDomain).map(formatClaim) : [];
    return listClaims(name, spec, baseDomain).filter((claim) => !kept.includes(formatClaim(claim)));
  }

  /**
   * Lists the Apps, except `name`, that claim the host of one of `claims`, directly or by a wildcard such as
   * *.example.com.
   */
  listHolders(name: string, claims: readonly DomainClaim[]): readonly Resource<"App">[] {
    return this.#listByClaims(name, (held) => claims.some((claim) => isHostShared(claim, held)));
  }

  /**
   * Lists the Apps, except `name`, with a host that one of these claims covers, such as a.example.com for the claim to
   * *.example.com.
   */
  listSharers(name: string, claims: readonly DomainClaim[]): readonly Resource<"App">[] {
    return this.#listByClaims(name, (held) => claims.some((claim) => isHostShared(held, claim)));
  }

  /**
   * Lists the paths of the machine that some App writes to, or wrote to in a version whose containers may still run.
   */
  *listWritablePaths(): Iterable<string> {
    const { listApps, revisions } = this.#options;
    const withHostPaths = revisions.listAppsWithHostPaths();
    for (const { metadata, spec } of listApps()) {
      const kept = withHostPaths.has(metadata.name) ? revisions.list(metadata.name) : [];
      for (const { volumes = [] } of [spec, ...kept.map((one) => one.spec)]) {
        for (const volume of volumes) {
          if ("hostPath" in volume && volume.readOnly !== true) yield volume.hostPath;
        }
      }
    }
  }

  #listByClaims(
    name: string,
    isMeant: (claim: DomainClaim) => boolean,
  ): readonly Resource<"App">[] {
    return this.#options
      .listApps()
      .filter(
        ({ metadata, spec }) =>
          metadata.name !== name &&
          listClaims(metadata.name, spec, this.#options.baseDomain).some(isMeant),
      );
  }

  /** Lists the spec of an App, and the specs of revisions that serve, or to which Berth may revert. */
  #listSpecs({ metadata, spec, status }: Resource<"App">): readonly AppSpec[] {
    const memory = status?.memory;
    const numbers = new Set([
      ...(memory?.servedRevisions ?? []).map(({ number }) => number),
      ...(memory?.good == null ? [] : [memory.good]),
      ...(memory?.quarantine ? [memory.quarantine.revertedTo] : []),
    ]);
    const { revisions } = this.#options;
    const kept = [...numbers].flatMap((number) => revisions.get(metadata.name, number) ?? []);
    return [spec, ...kept.map((revision) => revision.spec)];
  }
}
