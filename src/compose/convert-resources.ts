import { type ComposeNode, getValue } from "./compose-tree.ts";
import {
  convertDuration,
  formatBerthBytes,
  isLongerThan,
  parseComposeBytes,
} from "./quantities.ts";
import type { ServiceConversion } from "./service-conversion.ts";

/** Converts memory, CPUs, replicas and the other keys of `deploy`, except `deploy.labels`, which `readRoutes` reads. */
export function convertResources(conversion: ServiceConversion): void {
  const deploy = conversion.getNode("deploy");
  const limits = getValue(getValue(deploy, "resources"), "limits");
  const memory = getValue(limits, "memory") ?? conversion.getNode("mem_limit");
  const cpus = getValue(limits, "cpus") ?? conversion.getNode("cpus");
  const resources: NonNullable<typeof conversion.spec.resources> = {};
  if (memory) convertMemory(conversion, memory, resources);
  if (cpus) convertCpus(conversion, cpus, resources);
  // A service may have a limit in `deploy.resources` and also in the older form, `mem_limit` or `cpus`. Compose
  // requires both to be equal, so only the form in `deploy` is converted.
  for (const [other, used] of [
    [conversion.getNode("mem_limit"), memory],
    [conversion.getNode("cpus"), cpus],
  ]) {
    if (other && other !== used)
      conversion.addNote(other, "deploy.resources.limits takes precedence");
  }
  if (Object.keys(resources).length > 0) conversion.spec.resources = resources;
  for (const entry of conversion.listEntries(
    getValue(getValue(deploy, "resources"), "reservations"),
  )) {
    if (entry.key === "devices") {
      conversion.addLoss(entry, "an App cannot use devices or a GPU");
    } else {
      conversion.addNote(
        entry,
        "this reservation is omitted: Berth runs apps on one machine, and does not reserve resources for them",
      );
    }
  }
  convertReplicas(conversion, deploy);
  convertUpdates(conversion, deploy);
}

type Resources = NonNullable<ServiceConversion["spec"]["resources"]>;

const MEMORY_MIN_BYTES = 6 * 2 ** 20;

function convertMemory(
  conversion: ServiceConversion,
  node: ComposeNode,
  resources: Resources,
): void {
  const text = conversion.readText(node) ?? "";
  const bytes = parseComposeBytes(text);
  if (bytes === 0) return;
  if (bytes === undefined || bytes < MEMORY_MIN_BYTES || !Number.isSafeInteger(bytes)) {
    conversion.addLoss(node, `"${text}" is not a valid memory limit: the minimum is 6m`);
  } else resources.memory = formatBerthBytes(bytes);
}

function convertCpus(conversion: ServiceConversion, node: ComposeNode, resources: Resources): void {
  const text = conversion.readText(node) ?? "";
  const cpus = Number(text);
  if (/^0*(\.0*)?$/.test(text)) return;
  if (!/^\d*\.?\d+$/.test(text) || cpus < 0.01 || cpus > 100_000) {
    conversion.addLoss(node, `"${text}" is not a valid CPU limit: the minimum is 0.01`);
  } else resources.cpu = text.startsWith(".") ? `0${text}` : text;
}

function convertReplicas(conversion: ServiceConversion, deploy: ComposeNode | undefined): void {
  const node = getValue(deploy, "replicas") ?? conversion.getNode("scale");
  const scale = conversion.getNode("scale");
  if (scale && scale !== node) conversion.addNote(scale, "deploy.replicas takes precedence");
  if (node) {
    const count = Number(conversion.readText(node) || "1");
    if (count === 0) {
      conversion.spec.running = false;
      conversion.addNote(node, "no replicas: the app is written as stopped (running: false)");
    } else if (Number.isInteger(count) && count >= 1 && count <= 50) {
      if (count > 1) conversion.spec.replicas = count;
      else conversion.markHandled(node);
    } else conversion.addLoss(node, "replicas is a whole number from 1 to 50");
  }
  const mode = getValue(deploy, "mode");
  const text = mode && conversion.readText(mode);
  if (mode && text === "global")
    conversion.addNote(mode, "on one machine, global means one replica");
  else if (mode && text !== "replicated") {
    conversion.addLoss(mode, `an App runs permanently; "${text}" describes a job`);
  }
  const endpoint = getValue(deploy, "endpoint_mode");
  if (endpoint) conversion.addNote(endpoint, "this setting has no meaning on one machine");
  const placement = getValue(deploy, "placement");
  if (placement) conversion.addNote(placement, "this setting has no meaning on one machine");
}

function convertUpdates(conversion: ServiceConversion, deploy: ComposeNode | undefined): void {
  const update = getValue(deploy, "update_config");
  for (const entry of conversion.listEntries(update)) {
    const text = conversion.readText(entry.value);
    if (entry.key === "order" && (text === "start-first" || text === "stop-first")) {
      conversion.spec.rollout = {
        ...conversion.spec.rollout,
        strategy: text === "start-first" ? "rolling" : "recreate",
      };
    } else if (entry.key === "failure_action" && text !== "rollback") {
      conversion.spec.rollout = { ...conversion.spec.rollout, autoRevert: false };
    } else if (entry.key === "failure_action") {
      conversion.addNote(
        entry,
        "Berth itself returns to the last stable revision after a failed one",
      );
    } else {
      conversion.addLoss(
        entry,
        `update_config.${entry.key} has no equivalent in rollout`,
        "see rollout",
      );
    }
  }
  const rollback = getValue(deploy, "rollback_config");
  if (rollback)
    conversion.addLoss(rollback, "rollback_config has no equivalent in rollout", "see rollout");
}

/** Converts `restart` and `deploy.restart_policy`. Berth always restarts containers, within a budget. */
export function convertRestart(conversion: ServiceConversion): void {
  const restart = conversion.getNode("restart");
  if (restart) convertRestartPolicy(conversion, restart);
  const policy = getValue(conversion.getNode("deploy"), "restart_policy");
  for (const entry of conversion.listEntries(policy)) {
    const { value } = entry;
    const text = conversion.readText(value) ?? "";
    if (entry.key === "condition") {
      if (text === "none") limitRestarts(conversion, value, 0);
      else if (text === "on-failure") conversion.addNote(value, alsoAfterSuccessMessage);
      else if (text === "any") conversion.addNote(value, withinBudgetMessage);
      else conversion.addLoss(value, `there is no condition "${text}"`);
    } else if (entry.key === "max_attempts" && /^\d{1,3}$/.test(text))
      limitRestarts(conversion, value, Number(text));
    else if (entry.key === "delay" || entry.key === "window") {
      const duration = convertDuration(conversion, value);
      const field = entry.key === "delay" ? "backoff" : "interval";
      if (duration !== undefined && (field === "backoff" || isLongerThan(duration, 0))) {
        conversion.spec.restart = { ...conversion.spec.restart, [field]: duration };
      }
    } else conversion.addLoss(entry, `restart_policy.${entry.key} has no equivalent in restart`);
  }
}

const withinBudgetMessage =
  "Berth restarts a new version at most 5 times in 10 minutes, and without a limit a version that was stable once; change the numbers with restart";
const alsoAfterSuccessMessage =
  "Berth also restarts a container that exits without an error, within restart.attempts and restart.interval";

function limitRestarts(conversion: ServiceConversion, node: ComposeNode, attempts: number): void {
  conversion.spec.restart = { ...conversion.spec.restart, attempts };
  conversion.addNote(
    node,
    attempts === 0
      ? "without restarts, a container that exits or is unhealthy makes the app Stalled"
      : `Berth makes at most ${attempts} restarts in each restart.interval, which is 10 minutes by default`,
  );
}

function convertRestartPolicy(conversion: ServiceConversion, node: ComposeNode): void {
  const text = conversion.readText(node) ?? "";
  const [word, count] = text.split(":");
  if (text === "always" || text === "unless-stopped") conversion.addNote(node, withinBudgetMessage);
  else if (/^(no|false)$/i.test(text)) limitRestarts(conversion, node, 0);
  else if (word === "on-failure" && /^\d{1,3}$/.test(count ?? ""))
    limitRestarts(conversion, node, Number(count));
  else if (text === "on-failure") conversion.addNote(node, alsoAfterSuccessMessage);
  else conversion.addLoss(node, `there is no restart policy "${text}"`);
}
