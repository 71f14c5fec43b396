import type { AppStatus } from "./app-status.ts";
import type { API_VERSION, Kind, Manifest, SpecOf } from "./kinds.ts";
import type { ModelStatus } from "./model-status.ts";

/**
 * The owners of fields. A key is the JSON Pointer of a leaf below `spec` or `metadata` (an array is one leaf). The
 * value is a manager: `api`, `cli`, or `file:<path below the watched folder>`.
 */
export type FieldOwners = Readonly<Record<string, string>>;

/** Records what a manager has last applied to a resource, and which of its fields other managers have taken over. */
export interface ManagerEntry {
  /**
   * sha256 of the last applied document. While the hash does not change, fields that another manager took over with
   * force are not taken back.
   */
  readonly contentHash: string;
  readonly time: string;
  /**
   * True if the manager is a file that declares the resource. When the file stops declaring the resource, the resource
   * is pruned.
   */
  readonly declares: boolean;
  /** Fields that another manager has taken over from this one with force, as JSON Pointers. */
  readonly yielded: readonly string[];
}

export interface ResourceMetadata {
  readonly name: string;
  readonly uid: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  /** Increases by one with each change of the spec or of a `berth.dev/` annotation. */
  readonly generation: number;
  /**
   * Increases with each write to the store, across all resources. It determines the order of the changes of a watch.
   */
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

/** A resource as the store returns it. The values in `spec.data` of a Secret are "". */
export interface Resource<K extends Kind = Kind> {
  readonly apiVersion: typeof API_VERSION;
  readonly kind: K;
  readonly metadata: ResourceMetadata;
  readonly spec: SpecOf[K];
  /** The status; null until a controller has reconciled the resource. */
  readonly status: StatusOf[K] | null;
}

/** Returns true for a resource, or a manifest, of this kind. */
export function isKind<K extends Kind>(value: Resource, kind: K): value is Resource<K>;
export function isKind<K extends Kind>(value: Manifest, kind: K): value is Manifest<K>;
export function isKind(value: { readonly kind: Kind }, kind: Kind): boolean {
  return value.kind === kind;
}

/**
 * Names the origin of the App: `import:PROJECT` or `template:ID`. A document of another origin takes over the App only
 * with force. An App without this annotation was made by hand.
 */
export const ORIGIN_ANNOTATION = "berth.dev/origin";
/** Label with the name of the app, on all resources that a template has made for it. */
export const PART_OF_LABEL = "berth.dev/part-of";
/** RFC 3339 time of the last request to resolve the image or the source again. */
export const DEPLOYED_AT_ANNOTATION = "berth.dev/deployed-at";
/** Pins the source to this revision (a commit or a sha256). A rollback sets the annotation, and a deploy removes it. */
export const SOURCE_REVISION_ANNOTATION = "berth.dev/source-revision";
/**
 * Pins the image. Its value is the image's reference and the image's id, separated by a space. A rollback sets the
 * annotation, and a deploy removes it. It has no effect if the spec names another reference.
 */
export const IMAGE_HOLD_ANNOTATION = "berth.dev/image-hold";
/** Requests new containers. Its value is a timestamp. */
export const RESTARTED_AT_ANNOTATION = "berth.dev/restarted-at";
/** Requests a retry of a stalled or quarantined resource. Its value is a timestamp. */
export const RETRIED_AT_ANNOTATION = "berth.dev/retried-at";
/** With the value "delete", the named volumes are deleted together with the app. By default they are kept. */
export const VOLUME_POLICY_ANNOTATION = "berth.dev/volume-policy";
/** Present on every App until the reconciler has removed its containers. */
export const APP_FINALIZER = "berth.dev/containers";
/** RFC 3339 time of the last explicit start of a Model. If memory is short, the last started Model has priority. */
export const STARTED_AT_ANNOTATION = "berth.dev/started-at";
/**
 * With the value "delete", the files are deleted together with the Model, unless another Model uses them. By default
 * they are kept until the disk budget needs the space.
 */
export const FILE_POLICY_ANNOTATION = "berth.dev/file-policy";
/**
 * Present on every Model until it is unloaded, and its files are deleted or no longer protected from the disk budget.
 */
export const MODEL_FINALIZER = "berth.dev/model";
