import { parsePointer } from "../resources/json-pointer.ts";
import { API_VERSION, type Manifest } from "../resources/kinds.ts";
import { ORIGIN_ANNOTATION } from "../resources/resource.ts";
import { formatIssue, tryValidateManifest } from "../resources/validate-manifest.ts";
import { applyExtension, listSecretVariables } from "./berth-extension.ts";
import { collectScalars, getValue, isNull } from "./compose-tree.ts";
import { convertBuild } from "./convert-build.ts";
import { convertDependencies, convertNetworks, isJob } from "./convert-dependencies.ts";
import { convertEnvironment, writeEnvironment } from "./convert-environment.ts";
import { convertHealthCheck } from "./convert-health-check.ts";
import { convertLimits } from "./convert-limits.ts";
import { convertMountedFiles } from "./convert-mounted-files.ts";
import { convertOneShot } from "./convert-one-shot.ts";
import { convertPorts } from "./convert-ports.ts";
import { convertImage, convertProcess } from "./convert-process.ts";
import { convertResources, convertRestart } from "./convert-resources.ts";
import { convertRestrictions } from "./convert-restrictions.ts";
import { readRoutes, writeRoutes } from "./convert-routes.ts";
import { convertVolumes } from "./convert-volumes.ts";
import { type FindingList, UNSET_HINT } from "./import-findings.ts";
import type { ProjectData } from "./project-data.ts";
import type { ServiceConversion } from "./service-conversion.ts";
import { suggestServiceKey } from "./service-keys.ts";
import { reportUnsupportedKeys } from "./unsupported-keys.ts";

/**
 * Converts one service to an App. Returns undefined if that is impossible; the findings then contain the reason.
 * Every value of the service ends up in the App or in a finding.
 */
export function convertService(
  conversion: ServiceConversion,
  findings: FindingList,
  data: ProjectData,
): Manifest<"App"> | undefined {
  const secretVariables = listSecretVariables(conversion);
  for (const scalar of collectScalars(conversion.body)) {
    if (secretVariables.includes(scalar)) continue;
    if (scalar.failure !== undefined) conversion.addFailure(scalar, scalar.failure, UNSET_HINT);
    else findings.addUnsetVariables(conversion.service, scalar);
  }
  const build = conversion.getNode("build");
  if (build) convertBuild(conversion, build);
  else convertImage(conversion);
  convertProcess(conversion);
  convertEnvironment(conversion);
  convertResources(conversion);
  const hints = readRoutes(conversion, getValue(conversion.getNode("deploy"), "labels"));
  writeRoutes(conversion, hints, convertPorts(conversion, hints));
  convertRestrictions(conversion);
  convertLimits(conversion);
  convertVolumes(conversion, data);
  convertMountedFiles(conversion);
  convertHealthCheck(conversion);
  convertRestart(conversion);
  convertDependencies(conversion);
  convertNetworks(conversion);
  conversion.markHandled(getValue(conversion.body, "profiles"));
  reportUnsupportedKeys(conversion);
  writeEnvironment(conversion);
  if (isJob(conversion.service, conversion.project.services)) convertOneShot(conversion);
  const manifest = applyExtension(conversion, createManifest(conversion));
  reportUnhandled(conversion, findings);
  return conversion.isFailed ? undefined : validateConversion(conversion, manifest);
}

function createManifest(conversion: ServiceConversion): Manifest<"App"> {
  return {
    apiVersion: API_VERSION,
    kind: "App",
    metadata: {
      name: conversion.app,
      stack: conversion.options.stack,
      annotations: { [ORIGIN_ANNOTATION]: conversion.options.origin },
    },
    spec: orderFields(conversion),
  };
}

/** Validates the App by Berth's own rules, so that the server will accept the spec file. */
function validateConversion(
  conversion: ServiceConversion,
  manifest: Manifest<"App">,
): Manifest<"App"> | undefined {
  const read = tryValidateManifest(manifest);
  if (!("issues" in read)) return manifest;
  for (const issue of read.issues) {
    const field = parsePointer(issue.path)[1] ?? "";
    const entry = conversion.getEntry(composeKeys[field] ?? field);
    const message = `no App: ${formatIssue(issue)}`;
    if (entry) conversion.addFailure(entry, message);
    else conversion.addServiceFinding("failed", message);
  }
  return undefined;
}

/** Maps fields of an App to Compose keys, for fields that have another name in Compose. */
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

/** The usual order of fields in a spec. */
const fieldOrder = [
  "image",
  "platform",
  "source",
  "build",
  "port",
  "domain",
  "ingress",
  "entrypoint",
  "command",
  "user",
  "workingDir",
  "hostname",
  "env",
  "volumes",
  "folders",
  "files",
  "tmpfs",
  "shmSize",
  "security",
  "ulimits",
  "ports",
  "aliases",
  "dependsOn",
  "healthCheck",
  "replicas",
  "oneShot",
  "running",
  "resources",
  "rollout",
  "restart",
  "stopGracePeriod",
  "pullPolicy",
] as const;

function orderFields({ spec }: ServiceConversion): Manifest<"App">["spec"] {
  const known = fieldOrder.flatMap((field) =>
    spec[field] === undefined ? [] : [[field, spec[field]] as const],
  );
  return { ...Object.fromEntries(known), ...spec };
}

function reportUnhandled(conversion: ServiceConversion, findings: FindingList): void {
  for (const entry of conversion.listEntries(conversion.body)) {
    for (const node of findings.findUnhandled(entry.value)) {
      if (isNull(node)) continue;
      const isWhole = node === entry.value;
      if (entry.key.startsWith("x-")) {
        conversion.addNote(
          entry,
          "this key is omitted: it is an extension field, which Compose ignores, too",
        );
      } else if (isWhole) {
        conversion.addLoss(
          entry,
          `"${entry.key}" has no equivalent in an App${suggestServiceKey(entry.key)}`,
        );
      } else conversion.addLoss(node, "this value has no equivalent in an App");
    }
  }
}
