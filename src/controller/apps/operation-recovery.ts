import { BerthError } from "../../base/errors.ts";
import type { DesiredApp } from "./desired-app.ts";
import type { Operation } from "./plan/plan-types.ts";
import type { ReconcilerContext } from "./reconciler-context.ts";

/**
 * The way to continue after a failed operation. image-absent: make a new plan without the image. plan-again: make a
 * new plan, because the failure has changed the state. wait: back off.
 */
export type RecoveryAction = "image-absent" | "plan-again" | "wait";

export function recoverFromFailure(
  context: ReconcilerContext,
  operation: Operation,
  desired: DesiredApp,
  error: unknown,
): RecoveryAction {
  if (!(error instanceof BerthError)) return "wait";
  if (operation.type === "createContainer" && error.code === "image_not_found") {
    context.images.markAbsent(desired.imageId ?? desired.image);
    return "image-absent";
  }
  if (operation.type !== "startContainer") return "wait";
  // The engine stores the error of the failed start with the container, and the next plan counts the failed start
  // against the restart budget.
  if (error.code === "engine_error") return "plan-again";
  return error.code === "port_taken" &&
    leaseAnotherPort(context, operation.name, desired, error.message)
    ? "plan-again"
    : "wait";
}

/**
 * Leases another loopback port. Returns false if the taken port is set in the spec, because only the user can change
 * it.
 */
function leaseAnotherPort(
  context: ReconcilerContext,
  name: string,
  desired: DesiredApp,
  message: string,
): boolean {
  const { store } = context;
  const replica = desired.containers.findIndex((container) => container.name === name);
  const loopback = desired.containers[replica]?.publish.find(
    (port) => port.hostAddress === "127.0.0.1" && port.containerPort === desired.app.port,
  );
  const isRequested = desired.app.ports.some((port) =>
    new RegExp(`(:|port )${port.host}\\b`).test(message),
  );
  if (!loopback || desired.app.port === undefined || isRequested) return false;
  store.ports.lease(desired.name, replica, desired.app.port, [loopback.hostPort]);
  store.events.record({
    kind: "App",
    name: desired.name,
    type: "Warning",
    reason: "PortTaken",
    message: `loopback port ${loopback.hostPort} is taken by another program; another port is used`,
  });
  return true;
}
