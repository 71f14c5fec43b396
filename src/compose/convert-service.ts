import { segmentsOf } from "../resources/json-pointer.ts";
import { API_VERSION, type Manifest } from "../resources/kinds.ts";
import { issueText, readManifest } from "../resources/validate.ts";
import { convertBuild } from "./build.ts";
import { convertDependencies, convertNetworks, isJob } from "./dependencies.ts";
import { convertEnvironment, writeEnvironment } from "./environment.ts";
import { childrenOf, type FindingList } from "./findings.ts";
import { convertHealth } from "./health.ts";
import { reportLeftOut } from "./left-out.ts";
import { convertLimits, convertRestart } from "./limits.ts";
import { convertMountedFiles } from "./mounted-files.ts";
import { convertPorts } from "./ports.ts";
import { convertImage, convertProcess } from "./process.ts";
import { readRoutes, writeRoutes } from "./routes.ts";
import type { ServiceScope } from "./scope.ts";
import { suggestKey } from "./service-keys.ts";
import { type ComposeNode, isNull, type Scalar, valueAt } from "./tree.ts";
import { convertVolumes } from "./volumes.ts";

/**
 * One service as an App; undefined where it cannot be one, and then the findings say why. Every
 * value of the service ends in the App or in a finding.
 */
export function convertService(
  scope: ServiceScope,
  findings: FindingList,
  usersOf: (volume: string) => readonly string[],
): Manifest<"App"> | undefined {
  for (const scalar of scalarsOf(scope.body)) reportVariables(scope, scalar);
  const build = scope.get("build");
  if (build) convertBuild(scope, build);
  else convertImage(scope);
  convertProcess(scope);
  convertEnvironment(scope);
  convertLimits(scope);
  const hints = readRoutes(scope, valueAt(scope.get("deploy"), "labels"));
  convertPorts(scope, hints);
  writeRoutes(scope, hints);
  convertVolumes(scope, usersOf);
  convertMountedFiles(scope);
  convertHealth(scope);
  convertRestart(scope);
  convertDependencies(scope);
  convertNetworks(scope);
  scope.take(valueAt(scope.body, "profiles"));
  reportLeftOut(scope);
  writeEnvironment(scope);
  if (isJob(scope.service, scope.project.services)) {
    scope.spec.running = false;
    scope.mentionService(
      "lost",
      "others wait for this one to end: a job that runs once cannot be expressed, and is written as stopped (running: false)",
      "do its job by hand, or at the start of the app that needs it",
    );
  }
  reportLeftovers(scope, findings);
  return scope.isFailed ? undefined : checked(scope);
}

/** By the rules of Berth itself: what is handed over can be applied. */
function checked(scope: ServiceScope): Manifest<"App"> | undefined {
  const manifest: Manifest<"App"> = {
    apiVersion: API_VERSION,
    kind: "App",
    metadata: { name: scope.app },
    spec: inOrder(scope),
  };
  const read = readManifest(manifest);
  if (!("issues" in read)) return manifest;
  for (const issue of read.issues) {
    const field = segmentsOf(issue.path)[1] ?? "";
    const entry = scope.entry(composeKeys[field] ?? field);
    const message = `no App: ${issueText(issue)}`;
    if (entry) scope.fail(entry, message);
    else scope.mentionService("failed", message);
  }
  return undefined;
}

/** Where a field of an App comes from, if the names differ. */
const composeKeys: Readonly<Record<string, string>> = {
  source: "build",
  env: "environment",
  workingDir: "working_dir",
  healthCheck: "healthcheck",
  stopGracePeriod: "stop_grace_period",
  dependsOn: "depends_on",
  domain: "labels",
  ingress: "labels",
  resources: "deploy",
  port: "ports",
};

/** As people write a spec: what it is first, how it is kept last. */
const fieldOrder = [
  "image",
  "source",
  "build",
  "port",
  "domain",
  "ingress",
  "entrypoint",
  "command",
  "user",
  "workingDir",
  "env",
  "volumes",
  "ports",
  "dependsOn",
  "healthCheck",
  "replicas",
  "running",
  "resources",
  "rollout",
  "restart",
  "stopGracePeriod",
  "pullPolicy",
] as const;

function inOrder({ spec }: ServiceScope): Manifest<"App">["spec"] {
  const known = fieldOrder.flatMap((field) =>
    spec[field] === undefined ? [] : [[field, spec[field]] as const],
  );
  return { ...Object.fromEntries(known), ...spec };
}

function scalarsOf(node: ComposeNode): Scalar[] {
  return node.kind === "scalar" ? [node] : childrenOf(node).flatMap(scalarsOf);
}

function reportVariables(scope: ServiceScope, scalar: Scalar): void {
  const { failure, unset } = scalar;
  if (failure !== undefined) {
    scope.fail(scalar, failure, "set it in .env beside the file, or with --env-file");
  }
  for (const name of unset ?? []) {
    scope.mention(
      "lost",
      scalar,
      `the variable ${name} is not set, and nothing stands in its place`,
      "set it in .env beside the file, or with --env-file, and import again",
    );
  }
}

function reportLeftovers(scope: ServiceScope, findings: FindingList): void {
  for (const entry of scope.entries(scope.body)) {
    for (const node of findings.leftOver(entry.value)) {
      if (isNull(node)) continue;
      const isWhole = node === entry.value;
      if (entry.key.startsWith("x-")) {
        scope.note(entry, "a field of your own, which means nothing to Compose either");
      } else if (isWhole) {
        scope.lost(entry, `"${entry.key}" has no counterpart in an App${suggestKey(entry.key)}`);
      } else scope.lost(node, "has no counterpart in an App");
    }
  }
}
