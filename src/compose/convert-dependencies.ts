import { type ComposeNode, type Entry, getValue, isNull, listEntries } from "./compose-tree.ts";
import { asMapping } from "./merge-services.ts";
import type { ServiceConversion } from "./service-conversion.ts";

/**
 * The conditions of `depends_on` that can be converted. In each case Berth waits until the app is Ready; a one-shot is
 * Ready when it has completed.
 */
const knownConditions: ReadonlySet<string> = new Set([
  "service_started",
  "service_healthy",
  "service_completed_successfully",
]);

/** Converts `depends_on` and `links` to the list of apps that must be Ready first. */
export function convertDependencies(conversion: ServiceConversion): void {
  const node = conversion.getNode("depends_on");
  if (node) {
    for (const item of node.kind === "list" ? node.items : []) conversion.markHandled(item);
    for (const entry of listEntries(asMapping(node))) convertDependency(conversion, entry);
  }
  for (const item of conversion.readTexts(conversion.getNode("links"))) {
    conversion.markHandled(item);
    const [service = ""] = item.text.split(":");
    addDependency(conversion, item, service);
  }
}

function convertDependency(scope: ServiceConversion, { key, value, place }: Entry): void {
  const condition = getValue(value, "condition");
  const text = condition && scope.readText(condition);
  const required = getValue(value, "required");
  const isOptional = required !== undefined && !scope.isTrue(required);
  const restart = getValue(value, "restart");
  if (restart && scope.isTrue(restart)) {
    scope.addLoss(restart, `the app does not restart when "${key}" restarts`);
  }
  if (condition && !knownConditions.has(text ?? "")) {
    scope.addLoss(condition, `there is no condition "${text}"`);
  }
  if (isOptional && !scope.apps.has(key)) {
    scope.addNote({ key, value, place }, `"${key}" is optional, and not part of this import`);
  } else addDependency(scope, value, key);
}

function addDependency(conversion: ServiceConversion, node: ComposeNode, service: string): void {
  const app = conversion.apps.get(service);
  if (app === undefined) {
    conversion.addLoss(
      node,
      `"${service}" is not part of this import, so the app does not wait for it`,
      conversion.project.services.entries.has(service)
        ? "include its profile with --profile"
        : "check the spelling of the service's name",
    );
    return;
  }
  if (node.kind === "scalar") conversion.markHandled(node);
  if (app === conversion.app || conversion.spec.dependsOn?.includes(app)) return;
  conversion.spec.dependsOn = [...(conversion.spec.dependsOn ?? []), app];
}

/** Returns true if another service waits for this service to exit. Such a service is a job rather than an app. */
export function isJob(service: string, services: ComposeNode): boolean {
  return listEntries(services).some(({ value }) => {
    const condition = getValue(getValue(getValue(value, "depends_on"), service), "condition");
    return condition?.kind === "scalar" && condition.text === "service_completed_successfully";
  });
}

const ONE_NETWORK_MESSAGE =
  "the apps of a stack share one network, and reach each other by the names of their services";

/** Converts `networks`, `network_mode`, and the names that a container has on its networks. */
export function convertNetworks(conversion: ServiceConversion): void {
  const node = conversion.getNode("networks");
  if (node) {
    for (const item of node.kind === "list" ? node.items : []) {
      conversion.addNote(item, ONE_NETWORK_MESSAGE);
    }
    for (const entry of node.kind === "map" ? listEntries(node) : [])
      convertNetwork(conversion, entry);
  }
  const mode = conversion.getEntry("network_mode");
  if (mode) convertNetworkMode(conversion, mode, conversion.readText(mode.value) ?? "");
}

function convertNetwork(conversion: ServiceConversion, entry: Entry): void {
  for (const option of conversion.listEntries(entry.value)) {
    if (option.key === "aliases") conversion.readTexts(option.value);
    if (option.key !== "aliases")
      conversion.addLoss(
        option,
        `the network of a stack does not support the option ${option.key}`,
      );
  }
  if (entry.value.kind !== "map" || entry.value.entries.size === 0 || isNull(entry.value)) {
    conversion.addNote(entry, ONE_NETWORK_MESSAGE);
  }
}

function convertNetworkMode(conversion: ServiceConversion, entry: Entry, mode: string): void {
  if (mode === "bridge" || mode === "default") {
    conversion.addNote(entry, ONE_NETWORK_MESSAGE);
  } else if (mode === "host") {
    conversion.addLoss(
      entry,
      "an App cannot use the network of the machine, so its ports are not open there, and it cannot reach localhost services",
      "set port to the HTTP port of the app, and ports to its other ports; the app reaches the machine as host.docker.internal",
    );
  } else if (mode === "none") {
    conversion.addUnsafe(
      entry,
      "an App is always on the network of its stack and on that of all apps",
    );
  } else {
    conversion.addUnsafe(
      entry,
      `"${mode}": the app does not use the network of the other container, and reaches other hosts directly`,
      "if that container is a VPN or a filter, the app is not behind it",
    );
  }
}
