import { timestamp } from "../../../base/clock.ts";
import type { KnownModel } from "../models/known-models.ts";
import type { ResidencyState } from "../models/residency.ts";

/** The response of GET /state on the control socket. Times are in RFC 3339, sizes in bytes. */
export interface StateView {
  readonly version: string;
  readonly pid: number;
  readonly engine: string;
  /** The URL of the HTTP endpoint. */
  readonly url: string;
  readonly memory_bytes_max: number;
  /** The name of the program that started the daemon; null if a person did. */
  readonly started_by: string | null;
  readonly ledger: { readonly ok: boolean; readonly size: number };
  readonly models: readonly ControlModelView[];
}

export interface ControlModelView {
  readonly id: string;
  readonly aliases: readonly string[];
  /** The file; null for the stub's model. */
  readonly path: string | null;
  readonly size_bytes: number | null;
  readonly state: ResidencyState["state"];
  readonly pinned: boolean;
  readonly memory_bytes: number | null;
  /** The registered values; null if the daemon and the engine decide. */
  readonly wanted: { readonly context_tokens: number | null; readonly sequences: number | null };
  readonly context_tokens: number | null;
  readonly sequences: number | null;
  readonly threads: number | null;
  readonly active: number;
  readonly queued: number;
  readonly loaded_at: string | null;
  readonly expires_at: string | null;
  readonly error: { readonly code: string; readonly message: string } | null;
  /** True while the model is reloaded, now or after a back-off, without a request for it. */
  readonly recovering: boolean;
}

/** The response of POST /models/inspect. */
export interface ModelInspectionView {
  readonly architecture: string;
  readonly name: string | null;
  readonly parameters: number | null;
  readonly quantization: string | null;
  /** The context that the model was trained with, which is the maximum. */
  readonly context_tokens: number;
  readonly kind: "chat" | "completion" | "embedding";
  /** `wanted`: with the preferred context and sequences; `least`: with the smallest useful ones. */
  readonly memory_bytes: { readonly wanted: number; readonly least: number };
}

export function toControlModelView(
  state: ResidencyState & { readonly known: KnownModel },
): ControlModelView {
  const { model, error, known } = state;
  return {
    id: state.id,
    aliases: known.aliases,
    path: known.path === "" ? null : known.path,
    size_bytes: known.sizeBytes ?? null,
    state: state.state,
    pinned: known.isPinned,
    memory_bytes: model?.memoryBytes ?? null,
    wanted: {
      context_tokens: known.wanted.contextTokens ?? null,
      sequences: known.wanted.sequences ?? null,
    },
    context_tokens: model?.contextTokens ?? null,
    sequences: model?.sequences ?? null,
    threads: model?.threads ?? null,
    active: model?.load.active ?? 0,
    queued: model?.load.queued ?? 0,
    loaded_at: toTimestamp(state.loadedAt),
    expires_at: toTimestamp(state.expiresAt),
    error: error ? { code: error.code, message: error.message } : null,
    recovering: state.isRecovering,
  };
}

function toTimestamp(epochMs: number | undefined): string | null {
  return epochMs === undefined ? null : timestamp(epochMs);
}
