import { composeDuration, isLonger } from "./quantities.ts";
import type { ServiceScope } from "./scope.ts";
import { type ComposeNode, valueAt } from "./tree.ts";

/** What Compose has where a check does not say; Berth's own defaults are shorter. */
const COMPOSE_INTERVAL = "30s";
const COMPOSE_TIMEOUT = "30s";

export function convertHealth(scope: ServiceScope): void {
  const node = scope.get("healthcheck");
  if (!node) return;
  if (node.kind !== "map") {
    scope.lost(node, "is left out: a mapping was expected here");
    return;
  }
  const test = valueAt(node, "test");
  const command = test && testCommand(scope, test);
  const disable = valueAt(node, "disable");
  if ((disable && scope.isTrue(disable)) || command === "none") {
    scope.take(disable);
    scope.lost(
      command === "none" && test ? test : (disable ?? node),
      "no check at all is not possible: Berth tries the port, or looks whether the container runs",
    );
    return;
  }
  const health: NonNullable<typeof scope.spec.healthCheck> = {};
  if (command) health.command = command;
  else if (!test && scope.entries(node).some(({ key }) => key !== "disable")) {
    scope.mention(
      "note",
      node,
      "without test, Compose runs the check of the image; Berth tries the port",
    );
  }
  for (const [key, field] of [
    ["interval", "interval"],
    ["timeout", "timeout"],
    ["start_period", "startPeriod"],
  ] as const) {
    const value = valueAt(node, key);
    const duration = value && composeDuration(scope, value);
    // Zero stands for the default.
    if (duration !== undefined && isLonger(duration, 0)) health[field] = duration;
  }
  if (command) {
    health.interval ??= COMPOSE_INTERVAL;
    health.timeout ??= COMPOSE_TIMEOUT;
  }
  const retries = valueAt(node, "retries");
  if (retries) convertRetries(scope, retries, health);
  const startInterval = valueAt(node, "start_interval");
  if (startInterval) {
    scope.note(startInterval, "Berth looks more often by itself while a container starts");
  }
  if (Object.keys(health).length > 0) scope.spec.healthCheck = health;
}

function convertRetries(
  scope: ServiceScope,
  node: ComposeNode,
  health: NonNullable<ServiceScope["spec"]["healthCheck"]>,
): void {
  const count = Number(scope.text(node));
  if (Number.isInteger(count) && count >= 1 && count <= 100) health.retries = count;
  else if (count !== 0) {
    health.retries = count > 100 ? 100 : 3;
    scope.lost(node, `retries is a whole number from 1 to 100; it has become ${health.retries}`);
  }
}

/** The words of a check's command; "none" for a check that is switched off. */
function testCommand(scope: ServiceScope, test: ComposeNode): string[] | "none" | undefined {
  if (test.kind === "scalar") {
    const text = scope.text(test);
    if (text === "NONE") return "none";
    return text === undefined || text === "" ? undefined : ["/bin/sh", "-c", text];
  }
  scope.take(test);
  const [form, ...words] = scope.texts(test).map(({ text }) => text);
  if (form === "NONE") return "none";
  if (form === "CMD" && words.length > 0) return words;
  if (form === "CMD-SHELL" && words.length > 0) return ["/bin/sh", "-c", words.join(" ")];
  scope.lost(test, "is left out: it starts with CMD, CMD-SHELL or NONE");
  return undefined;
}
