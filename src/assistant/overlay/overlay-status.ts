import { AssistantError } from "../assistant-error.ts";
import { findLocalModel } from "./default-local-model.ts";
import type { OverlayDependencies } from "./overlay-dependencies.ts";
import type { OverlayStatus } from "./port.ts";

export async function readOverlayStatus(
  { inference, context, facts, clock }: OverlayDependencies,
  queries: {
    readonly active: number;
    readonly asked: number;
    readonly startedAtMs: number;
    readonly signal: AbortSignal;
  },
): Promise<OverlayStatus> {
  const { active, asked } = queries;
  let model: string | undefined;
  let modelError = "";
  try {
    model = await findLocalModel(facts, queries.signal);
  } catch (error) {
    modelError =
      error instanceof AssistantError ? error.message : "the list of local models cannot be read";
  }
  const ledger = facts.ledger();
  const index = context.indexState();
  return {
    version: facts.version,
    state: asked > 0 ? "waiting" : active > 0 ? "busy" : "idle",
    active,
    pending_confirmations: asked,
    engine: (await inference.health()).engine,
    model: model ?? "",
    model_error: modelError,
    http_port: facts.httpPort(),
    ledger_ok: ledger.ok,
    ledger_size: ledger.size,
    index_docs: index.documents,
    index_state: index.state,
    window_available: false,
    selection_available: false,
    consent: facts.consent(),
    providers: facts.providers(),
    uptime_ms: Math.max(0, clock.now() - queries.startedAtMs),
  };
}
