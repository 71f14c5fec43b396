import { isIP } from "node:net";
import type { SpecIssue } from "../base/errors.ts";
import { formatBytes, parseBytes, parseCpu, parseDuration } from "../base/units.ts";
import type { AppSpec } from "./app-spec.ts";
import { checkAppIngress } from "./check-app-ingress.ts";
import { checkAppSource } from "./check-app-source.ts";
import { createIssueList, type IssueList } from "./field-checks.ts";

/** Checks the rules of an App spec that its schema cannot express. */
export function checkAppSpec(
  spec: AppSpec,
  name: string | undefined,
  rules: { readonly mayLackSource?: boolean } = {},
): SpecIssue[] {
  const { issues, add } = createIssueList();
  if (rules.mayLackSource !== true && spec.image === undefined && spec.source === undefined)
    add(["spec"], "needs image (an image reference) or source (something to build)");
  checkAppSource(spec, add);
  checkAppIngress(spec, add);
  checkProcess(spec, add);
  checkHealth(spec, add);
  checkDurations(spec, add);
  checkLimits(spec, add);
  checkOneShot(spec, add);
  checkVolumes(spec, add);
  checkFiles(spec, add);
  checkPorts(spec, add);
  checkDependencies(spec, name, add);
  return issues;
}

type AddIssue = IssueList["add"];

/** Fields of an App that accepts requests, or that runs until it is stopped. */
const fieldsOfServices = ["port", "domain", "ingress", "ports", "healthCheck", "restart"] as const;

function checkOneShot(spec: AppSpec, add: AddIssue): void {
  if (spec.oneShot !== true) return;
  for (const field of fieldsOfServices) {
    if (spec[field] !== undefined)
      add(["spec", field], "cannot be combined with oneShot: the container runs once to its end");
  }
  if ((spec.replicas ?? 1) > 1)
    add(["spec", "replicas"], "cannot be combined with oneShot: the container runs only once");
}

/**
 * Checks the command line and the variables. The engine passes them as C strings, so they must not contain a NUL
 * character. An empty text cannot name a program.
 */
function checkProcess(spec: AppSpec, add: AddIssue): void {
  for (const key of ["entrypoint", "command"] as const) {
    const args = spec[key] ?? [];
    // With an entrypoint, the command contains only its arguments, of which the first may be an empty text.
    const namesProgram = key === "entrypoint" || !spec.entrypoint?.length;
    if (namesProgram && args[0] === "") {
      add(["spec", key, "0"], "names no program: the first entry is empty");
    }
    for (const [index, argument] of args.entries()) {
      if (argument.includes("\0")) add(["spec", key, String(index)], "contains a NUL character");
    }
  }
  for (const [variable, value] of Object.entries(spec.env ?? {})) {
    if (typeof value === "string" && value.includes("\0")) {
      add(["spec", "env", variable], "contains a NUL character");
    }
    if (typeof value === "number" && !isExactNumber(value)) {
      add(["spec", "env", variable], "loses digits as a number; put it in quotes");
    }
  }
}

/** Returns false for an integer beyond 2^53, because the parser has rounded it. */
function isExactNumber(value: number): boolean {
  return !Number.isInteger(value) || Number.isSafeInteger(value);
}

function checkHealth(spec: AppSpec, add: AddIssue): void {
  const health = spec.healthCheck;
  if (!health) return;
  const at = ["spec", "healthCheck"];
  if (health.command !== undefined) {
    for (const key of ["path", "port"] as const) {
      if (health[key] !== undefined) add([...at, "command"], `set ${key} or command, not both`);
    }
    if (health.command[0] === "")
      add([...at, "command", "0"], "names no program: the first entry is empty");
    if (health.command.some((argument) => argument.includes("\0"))) {
      add([...at, "command"], "contains a NUL character");
    }
  }
  if (health.path !== undefined && health.port === undefined && spec.port === undefined) {
    add([...at, "path"], "needs a port: set spec.port or spec.healthCheck.port");
  }
  if (health.path !== undefined && /[\s\p{Cc}]/u.test(health.path)) {
    add([...at, "path"], "contains white space; write it as %20");
  }
}

/** The longest duration that a spec may contain. A longer one is probably a mistake in the unit. */
const DURATION_MAX_MS = 365 * 86_400_000;

function checkDurations(spec: AppSpec, add: AddIssue): void {
  const git = spec.source && "git" in spec.source ? spec.source.git : undefined;
  const durations: [path: string[], text: string | undefined, mayBeZero: boolean][] = [
    [["source", "git", "interval"], git?.interval, false],
    [["healthCheck", "interval"], spec.healthCheck?.interval, false],
    [["healthCheck", "timeout"], spec.healthCheck?.timeout, false],
    [["healthCheck", "startPeriod"], spec.healthCheck?.startPeriod, true],
    [["rollout", "progressDeadline"], spec.rollout?.progressDeadline, false],
    [["rollout", "drain"], spec.rollout?.drain, true],
    [["rollout", "observe"], spec.rollout?.observe, true],
    [["restart", "interval"], spec.restart?.interval, false],
    [["restart", "backoff"], spec.restart?.backoff, true],
    [["stopGracePeriod"], spec.stopGracePeriod, true],
  ];
  for (const [path, text, mayBeZero] of durations) {
    if (text === undefined) continue;
    const durationMs = parseDuration(text);
    if (!mayBeZero && durationMs < 1) add(["spec", ...path], "has to be longer than 0");
    if (durationMs > DURATION_MAX_MS) add(["spec", ...path], "is longer than a year (365d)");
  }
}

/** The minimum of memory that the engine accepts. */
const MEMORY_MIN_BYTES = 6 * 1_048_576;

function checkLimits(spec: AppSpec, add: AddIssue): void {
  const { memory, cpu } = spec.resources ?? {};
  if (memory !== undefined) {
    const bytes = parseBytes(memory);
    if (bytes < MEMORY_MIN_BYTES) {
      add(
        ["spec", "resources", "memory"],
        `${memory} is ${formatBytes(bytes)}; a container needs at least 6Mi`,
      );
    }
    if (!Number.isSafeInteger(bytes)) {
      add(["spec", "resources", "memory"], "is more memory than any machine has");
    }
  }
  for (const [name, limit] of Object.entries(spec.ulimits ?? {})) {
    if (typeof limit === "number" || limit.hard === -1) continue;
    if (limit.soft === -1 || limit.soft > limit.hard)
      add(["spec", "ulimits", name, "soft"], `is above hard, which is ${limit.hard}`);
  }
  if (cpu !== undefined) {
    const nanoCpus = typeof cpu === "number" ? cpu * 1e9 : parseCpu(cpu);
    // The engine cannot limit a container to less than a hundredth of a CPU, so a smaller limit is refused.
    if (nanoCpus < 10_000_000) add(["spec", "resources", "cpu"], "has to be at least 0.01 (10m)");
    if (nanoCpus > 100_000 * 1e9) add(["spec", "resources", "cpu"], "is more than any machine has");
  }
}

function checkVolumes(spec: AppSpec, add: AddIssue): void {
  const paths = new Map<string, string>();
  const names = new Map<string, { readonly at: string; readonly shared: boolean }>();
  const mounts = [
    ...(spec.volumes ?? []).map((volume, index) => ["volumes", index, volume] as const),
    ...(spec.folders ?? []).map((folder, index) => ["folders", index, folder] as const),
    ...(spec.tmpfs ?? []).map((folder, index) => ["tmpfs", index, folder] as const),
    ...(spec.files ?? []).map((file, index) => ["files", index, file] as const),
  ];
  for (const [list, index, volume] of mounts) {
    const at = ["spec", list, String(index)];
    const path = volume.path.replaceAll(/\/(\.?\/)*/g, "/").replace(/(?<=.)\/\.?$/, "");
    if (path === "/") add([...at, "path"], "cannot be the root of the container");
    const samePath = paths.get(path);
    if (samePath === undefined) paths.set(path, `${list}[${index}]`);
    else add([...at, "path"], `"${volume.path}" is mounted already by ${samePath}`);
    if (!("name" in volume)) continue;
    const name = `${list} ${volume.name}`;
    const shared = volume.shared === true;
    const first = names.get(name) ?? { at: `${list}[${index}]`, shared };
    names.set(name, first);
    if (first.shared !== shared)
      add(
        [...at, "shared"],
        `"${volume.name}" is the name of ${first.at}, with another value of shared`,
      );
  }
}

/** The most text that the files of an App may have together: a spec must fit into one request to the API. */
const FILES_BYTES_MAX = 512 * 1024;

function checkFiles({ files = [] }: AppSpec, add: AddIssue): void {
  for (const [index, { path }] of files.entries()) {
    if (path.endsWith("/")) {
      add(
        ["spec", "files", String(index), "path"],
        "names a folder: a file's path does not end with /",
      );
    }
  }
  const texts = files.map((file) => ("content" in file ? file.content : ""));
  const bytes = texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
  if (bytes > FILES_BYTES_MAX) {
    add(
      ["spec", "files"],
      `the files have ${formatBytes(bytes)} of text, and may have ${formatBytes(FILES_BYTES_MAX)} together`,
    );
  }
}

function checkPorts(spec: AppSpec, add: AddIssue): void {
  const ports = spec.ports ?? [];
  if (ports.length > 0 && (spec.replicas ?? 1) > 1) {
    add(
      ["spec", "ports"],
      "a port of the machine belongs to one container: set replicas to 1 or leave ports out",
    );
  }
  for (const [index, port] of ports.entries()) {
    const at = ["spec", "ports", String(index)];
    if (port.address !== undefined && isIP(port.address) === 0) {
      add([...at, "address"], `"${port.address}" is not an IP address`);
    }
    const same = ports.findIndex(
      (other, otherIndex) =>
        otherIndex < index &&
        other.host === port.host &&
        (other.protocol ?? "tcp") === (port.protocol ?? "tcp") &&
        doAddressesOverlap(other.address, port.address),
    );
    if (same !== -1) add([...at, "host"], `${port.host} is published already by ports[${same}]`);
  }
}

const wildcardAddresses = ["0.0.0.0", "::"];

function doAddressesOverlap(a = "0.0.0.0", b = "0.0.0.0"): boolean {
  return a === b || wildcardAddresses.includes(a) || wildcardAddresses.includes(b);
}

function checkDependencies(spec: AppSpec, name: string | undefined, add: AddIssue): void {
  const seen = new Set<string>();
  for (const [index, dependency] of (spec.dependsOn ?? []).entries()) {
    const at = ["spec", "dependsOn", String(index)];
    if (dependency === name) add(at, "an app cannot depend on itself");
    if (seen.has(dependency)) add(at, `"${dependency}" is listed twice`);
    seen.add(dependency);
  }
}
