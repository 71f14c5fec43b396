import type { Reason } from "../reason.ts";

/** The name of this machine for containers that use models; no public name server has it. */
export const MODELS_HOST = "models.berth.internal";
/** The default port of the assistant's endpoint. */
export const MODELS_PORT = 7777;

/** The availability of the models for containers. */
export interface ContainerListenerStatus {
  readonly port: number;
  /** Returns the reason why containers cannot reach the models; null if they can. */
  getUnavailableReason(): Reason | null;
}

/** The status if no ContainerListenerReconciler runs: containers are assumed to reach the models. */
export const defaultContainerListener: ContainerListenerStatus = {
  port: MODELS_PORT,
  getUnavailableReason: () => null,
};

export function buildModelsUrl(port: number): string {
  return `http://${MODELS_HOST}:${port}/v1`;
}
