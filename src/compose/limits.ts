import { berthBytes, composeBytes, composeDuration, isLonger } from "./quantities.ts";
import type { ServiceScope } from "./scope.ts";
import { type ComposeNode, valueAt } from "./tree.ts";

/** Memory, CPUs, replicas, and what of `deploy` is left: `deploy.labels` are read with the others. */
export function convertLimits(scope: ServiceScope): void {
  const deploy = scope.get("deploy");
  const limits = valueAt(valueAt(deploy, "resources"), "limits");
  const memory = valueAt(limits, "memory") ?? scope.get("mem_limit");
  const cpus = valueAt(limits, "cpus") ?? scope.get("cpus");
  const resources: NonNullable<typeof scope.spec.resources> = {};
  if (memory) convertMemory(scope, memory, resources);
  if (cpus) convertCpus(scope, cpus, resources);
  // Both forms may be there, and Compose wants them to be equal.
  for (const [other, used] of [
    [scope.get("mem_limit"), memory],
    [scope.get("cpus"), cpus],
  ]) {
    if (other && other !== used) scope.note(other, "deploy.resources.limits goes first");
  }
  if (Object.keys(resources).length > 0) scope.spec.resources = resources;
  for (const entry of scope.entries(valueAt(valueAt(deploy, "resources"), "reservations"))) {
    if (entry.key === "devices") {
      scope.lost(entry, "an App has no devices and no GPU");
    } else {
      scope.note(entry, "nothing is reserved: one machine has nowhere else to go");
    }
  }
  convertReplicas(scope, deploy);
  convertUpdates(scope, deploy);
}

type Resources = NonNullable<ServiceScope["spec"]["resources"]>;

const MEMORY_MIN_BYTES = 6 * 2 ** 20;

function convertMemory(scope: ServiceScope, node: ComposeNode, resources: Resources): void {
  const text = scope.text(node) ?? "";
  const bytes = composeBytes(text);
  if (bytes === 0) return;
  if (bytes === undefined || bytes < MEMORY_MIN_BYTES || !Number.isSafeInteger(bytes)) {
    scope.lost(node, `"${text}" is no limit that an App can have; at least 6m`);
  } else resources.memory = berthBytes(bytes);
}

function convertCpus(scope: ServiceScope, node: ComposeNode, resources: Resources): void {
  const text = scope.text(node) ?? "";
  const cpus = Number(text);
  if (/^0*(\.0*)?$/.test(text)) return;
  if (!/^\d*\.?\d+$/.test(text) || cpus < 0.01 || cpus > 100_000) {
    scope.lost(node, `"${text}" is no limit that an App can have; at least 0.01`);
  } else resources.cpu = text.startsWith(".") ? `0${text}` : text;
}

function convertReplicas(scope: ServiceScope, deploy: ComposeNode | undefined): void {
  const node = valueAt(deploy, "replicas") ?? scope.get("scale");
  const scale = scope.get("scale");
  if (scale && scale !== node) scope.note(scale, "deploy.replicas goes first");
  if (node) {
    const count = Number(scope.text(node) || "1");
    if (count === 0) {
      scope.spec.running = false;
      scope.note(node, "no replicas: the app is written as stopped (running: false)");
    } else if (Number.isInteger(count) && count >= 1 && count <= 50) {
      if (count > 1) scope.spec.replicas = count;
      else scope.take(node);
    } else scope.lost(node, "replicas is a whole number from 1 to 50");
  }
  const mode = valueAt(deploy, "mode");
  const text = mode && scope.text(mode);
  if (mode && text === "global") scope.note(mode, "one machine: global is one replica");
  else if (mode && text !== "replicated") {
    scope.lost(mode, `an App keeps running; "${text}" is something that ends`);
  }
  const endpoint = valueAt(deploy, "endpoint_mode");
  if (endpoint) scope.note(endpoint, "has no meaning on one machine");
  const placement = valueAt(deploy, "placement");
  if (placement) scope.note(placement, "there is one machine to be placed on");
}

function convertUpdates(scope: ServiceScope, deploy: ComposeNode | undefined): void {
  const update = valueAt(deploy, "update_config");
  for (const entry of scope.entries(update)) {
    const text = scope.text(entry.value);
    if (entry.key === "order" && (text === "start-first" || text === "stop-first")) {
      scope.spec.rollout = {
        ...scope.spec.rollout,
        strategy: text === "start-first" ? "rolling" : "recreate",
      };
    } else if (entry.key === "failure_action" && text !== "rollback") {
      scope.spec.rollout = { ...scope.spec.rollout, autoRevert: false };
    } else if (entry.key === "failure_action") {
      scope.note(entry, "a version that fails gives way to the last good one by itself");
    } else {
      scope.lost(entry, `update_config.${entry.key} is Berth's own business`, "see rollout");
    }
  }
  const rollback = valueAt(deploy, "rollback_config");
  if (rollback) scope.lost(rollback, "how Berth goes back is not to be set", "see rollout");
}

/** `restart` and `deploy.restart_policy`: Berth restarts always, within a budget. */
export function convertRestart(scope: ServiceScope): void {
  const restart = scope.get("restart");
  if (restart) convertRestartWord(scope, restart);
  const policy = valueAt(scope.get("deploy"), "restart_policy");
  for (const entry of scope.entries(policy)) {
    const { value } = entry;
    const text = scope.text(value) ?? "";
    if (entry.key === "condition") {
      if (text === "none") limitTo(scope, value, 0);
      else if (text === "on-failure") scope.note(value, alsoAfterSuccess);
      else if (text === "any") scope.note(value, withinBudget);
      else scope.lost(value, `there is no condition "${text}"`);
    } else if (entry.key === "max_attempts" && /^\d{1,3}$/.test(text))
      limitTo(scope, value, Number(text));
    else if (entry.key === "delay" || entry.key === "window") {
      const duration = composeDuration(scope, value);
      const field = entry.key === "delay" ? "backoff" : "interval";
      if (duration !== undefined && (field === "backoff" || isLonger(duration, 0))) {
        scope.spec.restart = { ...scope.spec.restart, [field]: duration };
      }
    } else scope.lost(entry, `restart_policy.${entry.key} has no counterpart in restart`);
  }
}

const withinBudget =
  "Berth restarts at most 5 times in 10 minutes, then the app is Stalled until somebody looks; restart has other numbers";
const alsoAfterSuccess =
  "Berth restarts a container also when it ends without an error, within restart.attempts and restart.interval";

function limitTo(scope: ServiceScope, node: ComposeNode, attempts: number): void {
  scope.spec.restart = { ...scope.spec.restart, attempts };
  scope.note(
    node,
    attempts === 0
      ? "no restarts: a container that ends, or that is ill, leaves the app Stalled"
      : `becomes at most ${attempts} restarts in any restart.interval, of 10 minutes by default`,
  );
}

function convertRestartWord(scope: ServiceScope, node: ComposeNode): void {
  const text = scope.text(node) ?? "";
  const [word, count] = text.split(":");
  if (text === "always" || text === "unless-stopped") scope.note(node, withinBudget);
  else if (/^(no|false)$/i.test(text)) limitTo(scope, node, 0);
  else if (word === "on-failure" && /^\d{1,3}$/.test(count ?? ""))
    limitTo(scope, node, Number(count));
  else if (text === "on-failure") scope.note(node, alsoAfterSuccess);
  else scope.lost(node, `there is no restart policy "${text}"`);
}
