import { asMapping } from "./merge.ts";
import type { ServiceScope } from "./scope.ts";
import { type ComposeNode, type Entry, entriesOf, isNull, valueAt } from "./tree.ts";

/** `depends_on` and `links`: what must be Ready before. */
export function convertDependencies(scope: ServiceScope): void {
  const node = scope.get("depends_on");
  if (node) {
    for (const item of node.kind === "list" ? node.items : []) scope.take(item);
    for (const entry of entriesOf(asMapping(node))) convertDependency(scope, entry);
  }
  for (const item of scope.texts(scope.get("links"))) {
    scope.take(item);
    const [service = "", alias] = item.text.split(":");
    addDependency(scope, item, service);
    const app = scope.apps.get(service);
    if (alias !== undefined && app !== undefined && alias !== app) {
      scope.lost(
        item,
        `the other name "${alias}" is left out: the app is reached as "${app}" only`,
        `write ${app} wherever ${alias} is named`,
      );
    }
  }
}

function convertDependency(scope: ServiceScope, { key, value, place }: Entry): void {
  const condition = valueAt(value, "condition");
  const text = condition && scope.text(condition);
  const required = valueAt(value, "required");
  const isOptional = required !== undefined && !scope.isTrue(required);
  const restart = valueAt(value, "restart");
  if (restart && scope.isTrue(restart)) {
    scope.lost(restart, `the app does not start again when "${key}" does`);
  }
  if (text === "service_completed_successfully") {
    scope.lost(
      condition ?? value,
      `nothing can wait for "${key}" to end: an app keeps running, and one that does a job once cannot be expressed`,
      `do the job of "${key}" by hand, or at the start of this app`,
    );
    return;
  }
  if (condition && text !== "service_started" && text !== "service_healthy") {
    scope.lost(condition, `there is no condition "${text}"`);
  }
  if (isOptional && !scope.apps.has(key)) {
    scope.note({ key, value, place }, `"${key}" is not part of this import, and need not be`);
  } else addDependency(scope, value, key);
}

function addDependency(scope: ServiceScope, node: ComposeNode, service: string): void {
  const app = scope.apps.get(service);
  if (app === undefined) {
    scope.lost(
      node,
      `"${service}" is not part of this import, so nothing waits for it`,
      scope.project.services.entries.has(service)
        ? "take its profile in with --profile"
        : "is its name written right?",
    );
    return;
  }
  if (node.kind === "scalar") scope.take(node);
  if (app === scope.app || scope.spec.dependsOn?.includes(app)) return;
  scope.spec.dependsOn = [...(scope.spec.dependsOn ?? []), app];
}

/** Whether some service waits for this one to end: then it is a job, not an app. */
export function isJob(service: string, services: ComposeNode): boolean {
  return entriesOf(services).some(({ value }) => {
    const condition = valueAt(valueAt(valueAt(value, "depends_on"), service), "condition");
    return condition?.kind === "scalar" && condition.text === "service_completed_successfully";
  });
}

/** `networks`, `network_mode` and the names by which a container is known on them. */
export function convertNetworks(scope: ServiceScope): void {
  const node = scope.get("networks");
  if (node) {
    for (const item of node.kind === "list" ? node.items : []) {
      scope.note(item, "all apps share one network, and reach each other by name");
    }
    for (const entry of node.kind === "map" ? entriesOf(node) : []) convertNetwork(scope, entry);
  }
  const mode = scope.entry("network_mode");
  if (mode) convertMode(scope, mode, scope.text(mode.value) ?? "");
  const containerName = scope.get("container_name");
  if (containerName && scope.text(containerName) !== scope.app) {
    scope.note(
      containerName,
      `Berth names containers itself; other apps reach this one as "${scope.app}"`,
    );
  }
  const hostname = scope.get("hostname");
  if (hostname && scope.text(hostname) !== scope.app) {
    scope.lost(
      hostname,
      `the container has a host name of its own; other apps reach it as "${scope.app}"`,
    );
  }
}

function convertNetwork(scope: ServiceScope, entry: Entry): void {
  for (const option of scope.entries(entry.value)) {
    const names = option.key === "aliases" ? scope.texts(option.value) : [];
    for (const name of names) {
      if (name.text === scope.app) scope.take(name);
      else {
        scope.lost(
          name,
          `the other name "${name.text}" is left out: the app is reached as "${scope.app}" only`,
          `write ${scope.app} wherever ${name.text} is named`,
        );
      }
    }
    if (option.key !== "aliases") scope.lost(option, `a container's network has no ${option.key}`);
  }
  if (entry.value.kind !== "map" || entry.value.entries.size === 0 || isNull(entry.value)) {
    scope.note(entry, "all apps share one network, and reach each other by name");
  }
}

function convertMode(scope: ServiceScope, entry: Entry, mode: string): void {
  if (mode === "bridge" || mode === "default") {
    scope.note(entry, "all apps share one network, and reach each other by name");
  } else if (mode === "host") {
    scope.lost(
      entry,
      "an App is not on the network of the machine: what it listens on, and what it finds there, is not there",
      "set port to the one that serves HTTP, and ports to the others; host.docker.internal is the machine",
    );
  } else if (mode === "none") {
    scope.lost(entry, "an App is always on the network of all apps");
  } else {
    scope.lost(
      entry,
      `"${mode}": an App has a network of its own`,
      "reach the other app by its name",
    );
  }
}
