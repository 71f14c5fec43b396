import { hashJson } from "../../base/canonical-json.ts";
import { type EffectiveApp, resolveAppDefaults } from "../../resources/app-defaults.ts";
import type { AppSpec, SecretReference } from "../../resources/app-spec.ts";
import { findCondition } from "../../resources/app-status.ts";
import type { Resource } from "../../resources/resource.ts";
import { listReferencedSecrets } from "../../resources/secret-names.ts";
import { CERTIFICATE_PENDING } from "../ingress/port.ts";
import type { Reason } from "../reason.ts";
import type { DesiredApp } from "./desired-app.ts";
import type { StoreReader } from "./dry-run-store.ts";

/** The inputs of an App from other resources: the Secrets that it names, and the Apps that it depends on. */

/**
 * Returns a digest of everything whose change makes it worthwhile to try a stalled App again: the spec, the values of
 * Secrets, the registry credentials, and the revision of the source (null if it is unknown).
 */
export function inputsDigest(
  store: StoreReader,
  resource: Resource<"App">,
  sourceRevision: string | null = null,
): string {
  const versions = listReferencedSecrets(resource.spec).map(
    (name) => store.get("Secret", name)?.metadata.generation ?? null,
  );
  return hashJson([
    resource.metadata.uid,
    resource.metadata.generation,
    versions,
    listRegistryCredentials(store),
    sourceRevision,
  ]).slice(0, 16);
}

/**
 * Returns a digest of everything whose change justifies a new attempt at a version that failed for `reason`: the
 * settings of the version's containers, its health check and its rollout. If its image could not be pulled, the
 * credentials count too. A restart, a stop or a change of replicas does not change the digest.
 */
export function quarantineDigest(store: StoreReader, desired: DesiredApp, reason: string): string {
  const { healthCheck, rollout, restart, dependsOn, models, pullSecret } = desired.app;
  const pulledWith = pullFailures.has(reason)
    ? [pullSecret ?? null, listRegistryCredentials(store)]
    : null;
  const judged = [
    desired.version,
    withoutDefaultProbe(healthCheck),
    withoutDefaultWindow(rollout),
    restart,
    dependsOn,
    pulledWith,
  ];
  // Models are included only if the App has some, so that other Apps keep the digest that an earlier version of Berth
  // stored.
  return hashJson(models.length === 0 ? judged : [...judged, models]).slice(0, 16);
}

/**
 * Omits the settings of the observation window if they are the defaults. The quarantine digest then equals that of a
 * Berth version without these settings, so that an upgrade of Berth does not try failed versions again.
 */
function withoutDefaultWindow({ observeMs, minReadyMs, ...others }: EffectiveApp["rollout"]) {
  const defaults = resolveAppDefaults({}).rollout;
  const isDefault = observeMs === defaults.observeMs && minReadyMs === defaults.minReadyMs;
  return isDefault ? others : { ...others, observeMs, minReadyMs };
}

function withoutDefaultProbe({ rolloutProbe, ...others }: EffectiveApp["healthCheck"]) {
  return rolloutProbe === undefined ? others : { ...others, rolloutProbe };
}

const pullFailures: ReadonlySet<string> = new Set(["ImageNotFound", "RegistryDenied"]);

/**
 * Lists the credentials of all registries. Only the registry that refuses a pull knows which credentials its image
 * needs.
 */
function listRegistryCredentials(store: StoreReader): readonly (readonly [string, number])[] {
  return store
    .list("Secret")
    .filter((secret) => secret.spec.type === "registry")
    .map((secret) => [secret.metadata.name, secret.metadata.generation] as const);
}

/**
 * Returns the reason why the spec is invalid if it refers to a Secret that does not exist or lacks the value. If
 * several references are wrong, reports the first. Returns undefined if all references can be resolved.
 */
export function findMissingSecret(store: StoreReader, spec: AppSpec): Reason | undefined {
  for (const [user, value] of listReferences(spec)) {
    const values = store.secrets.reveal(value.secret);
    if (!values) {
      return {
        reason: "SecretNotFound",
        message: `${user} needs Secret "${value.secret}", which does not exist; create it with berth secrets set ${value.secret} ${value.key ?? "value"}=VALUE`,
      };
    }
    if (resolveSecretKey(values, value) === undefined) {
      const keys = Object.keys(values).join(", ") || "none";
      return {
        reason: "SecretKeyNotFound",
        message:
          value.key === undefined
            ? `${user} names Secret "${value.secret}" without a key, but that Secret has several keys (${keys})`
            : `${user} names key "${value.key}" of Secret "${value.secret}", which has ${keys}`,
      };
    }
  }
  if (spec.pullSecret !== undefined && !store.get("Secret", spec.pullSecret)) {
    return {
      reason: "SecretNotFound",
      message: `pullSecret names Secret "${spec.pullSecret}", which does not exist`,
    };
  }
  return undefined;
}

/** Lists the references to values of Secrets, each with the field of the spec that contains the reference. */
function listReferences({ env = {}, files = [] }: AppSpec): [string, SecretReference][] {
  return [
    ...Object.entries(env).flatMap(([name, value]): [string, SecretReference][] =>
      typeof value === "object" ? [[`env ${name}`, value]] : [],
    ),
    ...files.flatMap((file): [string, SecretReference][] =>
      "from" in file ? [[`file ${file.path}`, file.from]] : [],
    ),
  ];
}

/** Returns the value of a Secret reference that `findMissingSecret` has accepted. */
export function revealReference(store: StoreReader, reference: SecretReference): string {
  const values = store.secrets.reveal(reference.secret) ?? {};
  const key = resolveSecretKey(values, reference);
  return key === undefined ? "" : (values[key] ?? "");
}

function resolveSecretKey(
  values: Readonly<Record<string, string>>,
  reference: SecretReference,
): string | undefined {
  if (reference.key !== undefined) return reference.key in values ? reference.key : undefined;
  const keys = Object.keys(values);
  return keys.length === 1 ? keys[0] : undefined;
}

/** Returns the reason to wait for the first dependency that is not Ready; undefined if all dependencies are Ready. */
export function findPendingDependency(store: StoreReader, spec: AppSpec): Reason | undefined {
  for (const name of spec.dependsOn ?? []) {
    const dependency = store.get("App", name);
    if (!dependency)
      return {
        reason: "DependencyNotFound",
        message: `depends on app "${name}", which does not exist`,
      };
    const { metadata, status } = dependency;
    if (dependency.spec.oneShot === true && status?.observedGeneration !== metadata.generation)
      return {
        reason: "DependencyNotReady",
        message: `waits for app "${name}": its new version has not run yet`,
      };
    const ready = findCondition(dependency.status?.conditions ?? [], "Ready");
    // Containers reach each other directly, so a dependency is usable even while the ingress has no certificate for it.
    const isUsable = ready?.status === "True" || ready?.reason === CERTIFICATE_PENDING;
    if (!isUsable) {
      return {
        reason: "DependencyNotReady",
        message: `waits for app "${name}": ${ready?.message ?? "not reconciled yet"}`,
      };
    }
  }
  return undefined;
}
