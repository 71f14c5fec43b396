import { hashJson } from "../../base/canonical-json.ts";
import type { ModelSpec } from "../../resources/model-spec.ts";
import {
  RETRIED_AT_ANNOTATION,
  type Resource,
  STARTED_AT_ANNOTATION,
} from "../../resources/resource.ts";
import type { Store } from "../../store/store.ts";
import type { Reason } from "../reason.ts";
import type { SourceRequest } from "./hub/port.ts";

/** The desired state of a Model, derived from its spec. */
export interface DesiredModel {
  readonly name: string;
  readonly generation: number;
  readonly request: Omit<SourceRequest, "token">;
  /** A digest of all fields that select the files. When it changes, the source is resolved again. */
  readonly inputs: string;
  readonly running: boolean;
  readonly contextTokens: number | undefined;
  readonly sequences: number | undefined;
  /** The chat template that replaces the one in the model's file: its text, or the path of a file. */
  readonly chatTemplate: string | undefined;
  readonly deterministic: boolean | undefined;
  readonly gpu: ModelSpec["gpu"];
  /** The time of the last start by a user, in RFC 3339; null if there was none. */
  readonly startedAt: string | null;
  readonly retriedAt: string | null;
  readonly createdAt: string;
}

/** Returns the fields of a Model's spec from which Berth resolves the source to files. */
export function toSourceRequest(spec: ModelSpec): DesiredModel["request"] {
  const { source, file, quantization, revision, sha256 } = spec;
  return { source, file, quantization, revision, sha256 };
}

export function desiredModel(resource: Resource<"Model">): DesiredModel {
  const { spec, metadata } = resource;
  const request = toSourceRequest(spec);
  return {
    name: metadata.name,
    generation: metadata.generation,
    request,
    inputs: hashJson(request).slice(0, 16),
    running: spec.running ?? false,
    contextTokens: spec.contextSize,
    sequences: spec.parallel,
    chatTemplate: spec.chatTemplate,
    deterministic: spec.deterministic,
    gpu: spec.gpu,
    startedAt: metadata.annotations[STARTED_AT_ANNOTATION] ?? null,
    retriedAt: metadata.annotations[RETRIED_AT_ANNOTATION] ?? null,
    createdAt: metadata.creationTimestamp,
  };
}

type Secrets = Pick<Store, "get" | "secrets">;

/** Returns the token of the spec's `credential`; undefined if none is set, or if it cannot be used. */
export function resolveToken(store: Secrets, spec: ModelSpec): string | undefined {
  const token = readToken(store, spec);
  return token !== undefined && TOKEN.test(token) ? token : undefined;
}

/** Matches a token that an HTTP header can contain. */
const TOKEN = /^[\x21-\x7e]+$/;

/** Returns the trimmed token of a Model's credential: many Secrets, read from files, end with a newline. */
function readToken(store: Secrets, spec: ModelSpec): string | undefined {
  if (spec.credential === undefined) return undefined;
  const values = store.secrets.reveal(spec.credential) ?? {};
  const keys = Object.keys(values);
  return (values["token"] ?? (keys.length === 1 ? values[keys[0] ?? ""] : undefined))?.trim();
}

/** Returns the reason why the credential cannot be used; undefined if it can, or if none is set. */
export function findCredentialProblem(store: Secrets, spec: ModelSpec): Reason | undefined {
  if (spec.credential === undefined || resolveToken(store, spec) !== undefined) return undefined;
  const isThere = store.get("Secret", spec.credential) !== undefined;
  if (readToken(store, spec) !== undefined)
    return {
      reason: "TokenUnusable",
      message: `credential names Secret "${spec.credential}", whose token is empty or contains characters that no token has; set it again with berth secrets set ${spec.credential} token=VALUE`,
    };
  return isThere
    ? {
        reason: "SecretKeyNotFound",
        message: `credential names Secret "${spec.credential}", which has no key "token"`,
      }
    : {
        reason: "SecretNotFound",
        message: `credential names Secret "${spec.credential}", which does not exist; create it with berth secrets set ${spec.credential} token=VALUE`,
      };
}

/**
 * Returns a text that changes when the user edits the spec, sets a new credential or asks for a retry. Another
 * attempt may then succeed.
 */
export function computeStallInputs(store: Secrets, resource: Resource<"Model">): string {
  const { credential } = resource.spec;
  return hashJson([
    resource.metadata.uid,
    resource.metadata.generation,
    credential === undefined
      ? null
      : (store.get("Secret", credential)?.metadata.generation ?? null),
  ]).slice(0, 16);
}
