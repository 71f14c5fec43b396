import { type ComposeNode, getValue } from "./compose-tree.ts";
import { convertDuration, isLongerThan } from "./quantities.ts";
import type { ServiceConversion } from "./service-conversion.ts";

/**
 * The interval and the timeout that Compose uses by default. They are written to the spec, because Berth's defaults are
 * shorter.
 */
const COMPOSE_INTERVAL = "30s";
const COMPOSE_TIMEOUT = "30s";

export function convertHealthCheck(conversion: ServiceConversion): void {
  const node = conversion.getNode("healthcheck");
  if (!node) return;
  if (node.kind !== "map") {
    conversion.addLoss(node, "this health check is omitted: a mapping was expected here");
    return;
  }
  const test = getValue(node, "test");
  const command = test && readTestCommand(conversion, test);
  const disable = getValue(node, "disable");
  if ((disable && conversion.isTrue(disable)) || command === "none") {
    conversion.markHandled(disable);
    conversion.addLoss(
      command === "none" && test ? test : (disable ?? node),
      "health checks cannot be disabled: Berth probes the port, or checks that the container runs",
    );
    return;
  }
  const health: NonNullable<typeof conversion.spec.healthCheck> = {};
  if (command) health.command = command;
  else if (!test && conversion.listEntries(node).some(({ key }) => key !== "disable")) {
    conversion.addUnhandledFinding(
      "note",
      node,
      "a health check without test runs the check of the image in Compose; in Berth, it probes the port",
    );
  }
  for (const [key, field] of [
    ["interval", "interval"],
    ["timeout", "timeout"],
    ["start_period", "startPeriod"],
  ] as const) {
    const value = getValue(node, key);
    const duration = value && convertDuration(conversion, value);
    // In Compose, zero means the default, so the field is left out.
    if (duration !== undefined && isLongerThan(duration, 0)) health[field] = duration;
  }
  if (command) {
    health.interval ??= COMPOSE_INTERVAL;
    health.timeout ??= COMPOSE_TIMEOUT;
  }
  const retries = getValue(node, "retries");
  if (retries) convertRetries(conversion, retries, health);
  const startInterval = getValue(node, "start_interval");
  if (startInterval) {
    conversion.addNote(
      startInterval,
      "Berth always checks containers more often while they start, so it needs no such setting",
    );
  }
  if (Object.keys(health).length > 0) conversion.spec.healthCheck = health;
}

function convertRetries(
  conversion: ServiceConversion,
  node: ComposeNode,
  health: NonNullable<ServiceConversion["spec"]["healthCheck"]>,
): void {
  const count = Number(conversion.readText(node));
  if (Number.isInteger(count) && count >= 1 && count <= 100) health.retries = count;
  else if (count !== 0) {
    health.retries = count > 100 ? 100 : 3;
    conversion.addLoss(
      node,
      `retries is a whole number from 1 to 100; it is set to ${health.retries}`,
    );
  }
}

/** Returns the command line of a check, or "none" if the check is disabled. */
function readTestCommand(
  conversion: ServiceConversion,
  test: ComposeNode,
): string[] | "none" | undefined {
  if (test.kind === "scalar") {
    const text = conversion.readText(test);
    if (text === "NONE") return "none";
    return text === undefined || text === "" ? undefined : ["/bin/sh", "-c", text];
  }
  conversion.markHandled(test);
  const [form, ...words] = conversion.readTexts(test).map(({ text }) => text);
  if (form === "NONE") return "none";
  if (form === "CMD" && words.length > 0) return words;
  if (form === "CMD-SHELL" && words.length > 0) return ["/bin/sh", "-c", words.join(" ")];
  conversion.addLoss(test, "this check is omitted: it must start with CMD, CMD-SHELL or NONE");
  return undefined;
}
