import { timestamp } from "../../../base/clock.ts";
import type { KnownModel } from "../models/known-models.ts";
import type { ResidencyState } from "../models/residency.ts";

/** The response of GET /state on the control socket. Times are in RFC 3339 format, sizes in bytes. */
export interface StateView {
  readonly version: string;
  readonly pid: number;
  readonly engine: string;
  /** The URL of the HTTP endpoint. */
  readonly url: string;
  readonly memory_bytes_max: number;
  /** The name of the program that started the daemon; null if a user started it. */
  readonly started_by: string | null;
  readonly ledger: { readonly ok: boolean; readonly size: number };
  readonly models: readonly ControlModelView[];
}

export interface ControlModelView {
  readonly id: string;
  readonly aliases: readonly string[];
  /** The path of the model file; null for the model of the stub engine. */
  readonly path: string | null;
  readonly size_bytes: number | null;
  readonly state: ResidencyState["state"];
  readonly pinned: boolean;
  readonly memory_bytes: number | null;
  /**
   * The context size, the number of KV-cache sequences, the chat template and the repeatability that the registration
   * of the model requests; null for values that the registration leaves to the daemon and the engine.
   */
  readonly wanted: {
    readonly context_tokens: number | null;
    readonly sequences: number | null;
    readonly chat_template: string | null;
    readonly deterministic: boolean | null;
  };
  readonly context_tokens: number | null;
  readonly sequences: number | null;
  readonly threads: number | null;
  readonly active: number;
  readonly queued: number;
  readonly loaded_at: string | null;
  readonly expires_at: string | null;
  readonly error: { readonly code: string; readonly message: string } | null;
  /**
   * True while the daemon reloads the model on its own after a crash, including the back-off before the next attempt.
   */
  readonly recovering: boolean;
}

/** The response of POST /models/inspect. */
export interface ModelInspectionView {
  readonly architecture: string;
  readonly name: string | null;
  readonly parameters: number | null;
  readonly quantization: string | null;
  /** The context that the model was trained with, in tokens. It is the largest possible context. */
  readonly context_tokens: number;
  readonly kind: "chat" | "completion" | "embedding";
  /**
   * The model's memory need: `wanted` with the preferred context and number of KV-cache sequences, `least` with the
   * smallest useful values of both.
   */
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
      chat_template: known.wanted.chatTemplate ?? null,
      deterministic: known.wanted.isDeterministic ?? null,
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
