import { BerthError } from "../../base/errors.ts";
import type { DesiredApp } from "./desired-app.ts";
import type { Operation } from "./plan/plan-types.ts";
import type { ReconcilerContext } from "./reconciler-context.ts";

/**
 * What a failed operation leaves to try: planning anew because the image turned out to be absent,
 * planning anew because the failure has changed what there is, or waiting it out.
 */
export type RecoveryAction = "image-absent" | "plan-anew" | "wait";

export function recoverFromFailure(
  context: ReconcilerContext,
  operation: Operation,
  desired: DesiredApp,
  error: unknown,
): RecoveryAction {
  if (!(error instanceof BerthError)) return "wait";
  if (operation.type === "createContainer" && error.code === "image_not_found") {
    context.images.markAbsent(desired.image);
    return "image-absent";
  }
  if (operation.type !== "startContainer") return "wait";
  // The engine keeps the reason with the container, where the restart budget finds it.
  if (error.code === "engine_error") return "plan-anew";
  return error.code === "port_taken" &&
    leaseAnotherPort(context, operation.name, desired, error.message)
    ? "plan-anew"
    : "wait";
}

/** False where the port that is taken is one that the spec asks for: only a person can choose another. */
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
  const isAskedFor = desired.app.ports.some((port) =>
    new RegExp(`(:|port )${port.host}\\b`).test(message),
  );
  if (!loopback || desired.app.port === undefined || isAskedFor) return false;
  store.ports.lease(desired.name, replica, desired.app.port, [loopback.hostPort]);
  store.events.record({
    kind: "App",
    name: desired.name,
    type: "Warning",
    reason: "PortTaken",
    message: `loopback port ${loopback.hostPort} is taken by somebody else; another one is used`,
  });
  return true;
}
