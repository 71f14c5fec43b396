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

/** The Models that an App with `models` waits for, and the settings that its containers get for them. */

/** A placeholder for the API key. The assistant requires no key, but most clients refuse to start without one. */
const API_KEY = "berth";

/** Returns the settings that containers of an App with models get; no settings for any other App. */
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

/**
 * Returns why the App has to wait: a Model that does not answer, or a missing listener for containers. Undefined if
 * the App need not wait.
 */
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
  // An App that sets the base URL itself does not need the listener for containers.
  const hasOwnBaseUrl = spec.env?.["OPENAI_BASE_URL"] !== undefined;
  return models.length === 0 || hasOwnBaseUrl
    ? undefined
    : (listener.getUnavailableReason() ?? undefined);
}

/** Returns why an App has to wait for this Model; undefined if the Model answers. */
export function explainPendingModel(
  name: string,
  model: Resource<"Model"> | undefined,
): Reason | undefined {
  if (!model)
    return {
      reason: "ModelNotFound",
      message: `needs model "${name}", which does not exist; declare it with kind: Model`,
    };
  const { status, spec, metadata } = model;
  if (metadata.deletionTimestamp !== null) return notReady(name, "it is being deleted");
  if (status?.phase === "running") return undefined;
  if (status?.phase === "ready" && spec.running !== true)
    return notReady(name, `the model is on the disk, but not started: berth models start ${name}`);
  const ready = findCondition(status?.conditions ?? [], "Ready");
  return notReady(name, ready?.message || (status?.phase ?? "not reconciled yet"));
}

function notReady(name: string, why: string): Reason {
  return { reason: "ModelNotReady", message: `waits for model "${name}": ${why}` };
}
