import { findCondition } from "../../resources/app-status.ts";
import { getOwnDomain } from "../../resources/domain-claims.ts";
import { NO_DOMAIN } from "../../resources/field-schemas.ts";
import type { Reason } from "../reason.ts";
import type { AppFindings, SetCondition } from "./app-findings.ts";
import type { DesiredApp } from "./desired-app.ts";
import { getReplicaIndex, isHealthy } from "./plan/observed-containers.ts";

/**
 * Returns why requests cannot reach a running App at all, or cannot reach it over HTTPS. Returns null if they can, or
 * if there is no ingress. After a restart of Berth, the previous condition is kept until the ingress has answered.
 */
export function findRoutingProblem(
  findings: Pick<AppFindings, "resource" | "desired" | "ingress">,
): Reason | null {
  const { ingress, desired, resource } = findings;
  const problem = findServingProblem(findings);
  if (problem || !desired?.isRouted) return problem;
  const verdict = ingress.verdict(resource);
  return verdict?.served === true ? (verdict.pending ?? null) : null;
}

/**
 * Returns why the ingress does not serve the App at all. A missing certificate is ignored here, because it does not
 * mean that the App's version has failed.
 */
export function findServingProblem(
  findings: Pick<AppFindings, "resource" | "desired" | "ingress">,
): Reason | null {
  const { ingress, desired, resource } = findings;
  if (!desired?.isRouted) return null;
  const verdict = ingress.verdict(resource);
  if (verdict?.served === false) return { reason: verdict.reason, message: verdict.message };
  if (verdict || wasRouted(findings)) return null;
  const state = ingress.state();
  return {
    reason: "WaitingForIngress",
    message: state.ready ? "the ingress is about to serve the app's domain" : state.message,
  };
}

function wasRouted({ resource }: Pick<AppFindings, "resource">): boolean {
  const previous = findCondition(resource.status?.conditions ?? [], "Routed");
  return previous?.status === "True" && previous.reason === "Routed";
}

/**
 * True if requests from outside can reach the App: it has a port, and its spec does not turn the domain off (`none`).
 */
function acceptsRequests({ app }: DesiredApp): boolean {
  return app.port !== undefined && app.domain !== NO_DOMAIN;
}

export function setRoutedCondition(findings: AppFindings, set: SetCondition): void {
  const { desired, ingress } = findings;
  const available = findings.containers.filter((container) =>
    isHealthy(container, findings.health),
  ).length;
  if (desired !== null && !acceptsRequests(desired)) set("Routed", null, "", "");
  else if (findings.unknown !== null)
    set("Routed", "Unknown", "EngineUnreachable", findings.unknown);
  else if (desired === null || !desired.isRouted) setPublishedCondition(findings, available, set);
  else {
    const problem = findRoutingProblem(findings);
    const state = ingress.state();
    const targets = findings.route?.targets.length ?? 0;
    if (problem) set("Routed", "False", problem.reason, problem.message);
    else if (!state.ready) set("Routed", "False", "IngressNotReady", state.message);
    else if (targets === 0)
      set("Routed", "False", "NoHealthyContainer", "no container can accept requests");
    else {
      set(
        "Routed",
        "True",
        "Routed",
        `${getAppUrl(findings) ?? findings.resource.metadata.name} routes requests to ${targets} ${targets === 1 ? "container" : "containers"}`,
      );
    }
  }
}

function setPublishedCondition(findings: AppFindings, available: number, set: SetCondition): void {
  const { domain } = findings.resource.spec;
  if (available === 0) set("Routed", "False", "NoHealthyContainer", "no container is healthy");
  else if (findings.ingress.mode !== "off")
    set("Routed", "Unknown", "NotLookedAt", "not reconciled yet");
  else
    set(
      "Routed",
      "True",
      "PublishedOnLoopback",
      `there is no ingress: the app is published on a loopback port of this machine${domain === undefined ? "" : `, and requests to ${domain} do not reach it`}`,
    );
}

export function getAppUrl(findings: AppFindings): string | null {
  const { desired, ingress, resource } = findings;
  const port = desired?.app.port;
  if (!desired || port === undefined || !acceptsRequests(desired)) return null;
  if (desired.isRouted) {
    const verdict = ingress.verdict(resource);
    if (verdict?.served === false) return null;
    if (!verdict && !wasRouted(findings)) return null;
    const domain = getOwnDomain(resource.metadata.name, resource.spec, findings.baseDomain);
    if (domain === undefined) return null;
    const prefix = resource.spec.ingress?.pathPrefix ?? "";
    return ingress.url(domain, verdict?.served === true && verdict.https, prefix);
  }
  const ready = findings.containers.toSorted((a, b) => getReplicaIndex(a) - getReplicaIndex(b));
  for (const container of ready) {
    const address = container.addresses.find(
      (candidate) => candidate.containerPort === port,
    )?.address;
    if (container.state === "running" && address !== undefined) return `http://${address}`;
  }
  return null;
}
