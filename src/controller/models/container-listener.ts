import type { Reason } from "../reason.ts";

/** What containers call this machine when they ask a model; no public server of names knows it. */
export const MODELS_HOST = "models.berth.internal";
/** Of the assistant's endpoint, where nobody chose another one. */
export const MODELS_PORT = 7777;

/** The way by which containers reach the models. */
export interface ContainerListenerStatus {
  readonly port: number;
  /** Why containers cannot go by it; null where they can. */
  getUnavailableReason(): Reason | null;
}

/** Where nobody looks after the way: it is taken to be open. */
export const defaultContainerListener: ContainerListenerStatus = {
  port: MODELS_PORT,
  getUnavailableReason: () => null,
};

export function buildModelsUrl(port: number): string {
  return `http://${MODELS_HOST}:${port}/v1`;
}
