import type { EffectiveApp } from "../../resources/app-defaults.ts";
import type { AppSpec } from "../../resources/app-spec.ts";
import { findCondition } from "../../resources/app-status.ts";
import type { Resource } from "../../resources/resource.ts";
import {
  buildModelsUrl,
  type ContainerListenerStatus,
  MODELS_HOST,
} from "../models/container-listener.ts";
import type { Reason } from "../reason.ts";
import type { StoreReader } from "./dry-run-store.ts";

/**
 * What an App that says `models` waits for, and what its containers are told of them.
 */

/** No key is asked for, but most clients refuse to start without one. */
const API_KEY = "berth";

/** What makes containers of such an App; empty for any other, whose containers stay what they were. */
export function buildModelSettings(
  app: EffectiveApp,
  port: number,
): { readonly env: readonly string[]; readonly hostAliases?: readonly string[] } {
  const [first] = app.models;
  if (first === undefined) return { env: [] };
  const variables = {
    OPENAI_BASE_URL: buildModelsUrl(port),
    OPENAI_API_KEY: API_KEY,
    OPENAI_MODEL: first,
    BERTH_MODELS: app.models.join(","),
  };
  return {
    env: Object.entries(variables)
      .filter(([name]) => !(name in app.env))
      .map(([name, value]) => `${name}=${value}`),
    hostAliases: [MODELS_HOST],
  };
}

/** The first Model that does not answer yet, or what keeps containers from it; undefined where all is well. */
export function findPendingModel(
  store: StoreReader,
  spec: AppSpec,
  listener: ContainerListenerStatus,
): Reason | undefined {
  const { models = [] } = spec;
  for (const name of models) {
    const reason = explainPendingModel(name, store.get("Model", name));
    if (reason) return reason;
  }
  // An App that goes elsewhere for its answers needs no way to the models.
  const hasOwnBaseUrl = spec.env?.["OPENAI_BASE_URL"] !== undefined;
  return models.length === 0 || hasOwnBaseUrl
    ? undefined
    : (listener.getUnavailableReason() ?? undefined);
}

/** Why an App has to wait for this Model; undefined where it answers. */
export function explainPendingModel(
  name: string,
  model: Resource<"Model"> | undefined,
): Reason | undefined {
  if (!model)
    return {
      reason: "ModelNotFound",
      message: `wants model "${name}", which is not there; declare it with kind: Model`,
    };
  const { status, spec, metadata } = model;
  if (metadata.deletionTimestamp !== null) return notReady(name, "it is being deleted");
  if (status?.phase === "running") return undefined;
  if (status?.phase === "ready" && spec.running !== true)
    return notReady(
      name,
      `it is on the disk, and nobody has started it: berth models start ${name}`,
    );
  const ready = findCondition(status?.conditions ?? [], "Ready");
  return notReady(name, ready?.message || (status?.phase ?? "not looked at yet"));
}

function notReady(name: string, why: string): Reason {
  return { reason: "ModelNotReady", message: `waits for model "${name}": ${why}` };
}
