import type { AppStatus } from "./app-status.ts";
import type { API_VERSION, Kind, SpecOf } from "./kinds.ts";
import type { ModelStatus } from "./model-status.ts";

/**
 * Who owns which field. A key is the JSON Pointer of a leaf below `spec` or `metadata` (an array is
 * one leaf), the value a manager: `api`, `cli`, or `file:<path below the watched folder>`.
 */
export type FieldOwners = Readonly<Record<string, string>>;

/** What the store knows of one manager of one resource. */
export interface ManagerEntry {
  /** sha256 of the document as last applied; a forced field stays taken over until this changes. */
  readonly contentHash: string;
  readonly time: string;
  /** True for a file: when it stops declaring the resource, the resource is pruned. */
  readonly declares: boolean;
  /** Fields that another manager took from this one with force, as JSON Pointers. */
  readonly yielded: readonly string[];
}

export interface ResourceMetadata {
  readonly name: string;
  readonly uid: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  /** Grows by one with each change of the spec or of a `berth.dev/` annotation. */
  readonly generation: number;
  /** Grows with each write to the store, across all resources; orders watches. */
  readonly resourceVersion: number;
  readonly creationTimestamp: string;
  readonly deletionTimestamp: string | null;
  readonly finalizers: readonly string[];
  readonly owners: FieldOwners;
  readonly managers: Readonly<Record<string, ManagerEntry>>;
}

export interface StatusOf {
  App: AppStatus;
  Model: ModelStatus;
  Template: Readonly<Record<string, unknown>>;
  Secret: Readonly<Record<string, unknown>>;
}

/** A resource as the store holds it. A Secret's `spec.data` holds "" for each value. */
export interface Resource<K extends Kind = Kind> {
  readonly apiVersion: typeof API_VERSION;
  readonly kind: K;
  readonly metadata: ResourceMetadata;
  readonly spec: SpecOf[K];
  /** Null until a controller has looked at the resource. */
  readonly status: StatusOf[K] | null;
}

/** When a person last asked for the source to be looked at anew; RFC 3339. */
export const DEPLOYED_AT_ANNOTATION = "berth.dev/deployed-at";
/** Holds the source at this revision (a commit, or a sha256), as a rollback does; a deploy takes it away. */
export const SOURCE_REVISION_ANNOTATION = "berth.dev/source-revision";
/** A person's wish to have the containers made anew; its value is a timestamp. */
export const RESTARTED_AT_ANNOTATION = "berth.dev/restarted-at";
/** A person's wish to try a stalled or quarantined resource again; its value is a timestamp. */
export const RETRIED_AT_ANNOTATION = "berth.dev/retried-at";
/** "delete": the app's named volumes go with it. Default: retained. */
export const VOLUME_POLICY_ANNOTATION = "berth.dev/volume-policy";
/** Present on every App until the reconciler has taken its containers away. */
export const APP_FINALIZER = "berth.dev/containers";
/** When a person last started a Model; the one started last comes first where memory is short. RFC 3339. */
export const STARTED_AT_ANNOTATION = "berth.dev/started-at";
/** "delete": a Model's files go with it, as far as no other Model has them. Default: kept within the budget. */
export const FILE_POLICY_ANNOTATION = "berth.dev/file-policy";
/** Present on every Model until it is out of memory, and its files are left to the budget or gone. */
export const MODEL_FINALIZER = "berth.dev/model";
