import {
  type ComposeNode,
  collectScalars,
  type Entry,
  getValue,
  isNull,
  listEntries,
  listItems,
} from "./compose-tree.ts";
import { type FindingList, UNSET_HINT } from "./import-findings.ts";
import type { ComposeProject } from "./load-project.ts";
import { listNamedVolumes } from "./mount.ts";

/**
 * Reports the top-level sections of a project other than `services`. `used` contains the Compose definitions of the
 * services that are imported.
 */
export function reportTopLevel(
  project: ComposeProject,
  used: readonly ComposeNode[],
  findings: FindingList,
): void {
  const note = (target: ComposeNode | Entry, message: string, hint?: string) =>
    findings.add("note", undefined, target, message, hint);
  const lost = (target: ComposeNode | Entry, message: string, hint?: string) =>
    findings.add("lost", undefined, target, message, hint);

  reportVariables(project, findings);
  findings.markHandled(project.name);
  for (const entry of listEntries(project.networks)) {
    const options = listEntries(entry.value).filter(({ value }) => !isNull(value));
    for (const option of options) {
      const text = option.value.kind === "scalar" ? option.value.text : "";
      if (option.key === "internal" && /^true$/i.test(text)) {
        findings.add("unsafe", undefined, option, "apps of this network can reach the internet");
      } else if (option.key === "external" && !/^false$/i.test(text)) {
        lost(
          option,
          "apps cannot reach containers on this network unless Berth runs them",
          "publish a port of these containers",
        );
      } else if (
        !["name", "external", "internal", "attachable"].includes(option.key) &&
        text !== "bridge"
      ) {
        lost(option, `the apps of a stack share one network, whose ${option.key} cannot be set`);
      }
    }
    note(
      entry,
      "the apps of a stack share one network, and reach each other by the names of their services",
    );
  }
  const mounted = new Set(used.flatMap((service) => listNamedVolumes(service)));
  for (const entry of listEntries(project.volumes)) reportVolume(entry, mounted, note, lost);
  for (const section of ["secrets", "configs"] as const) {
    const names = new Set(used.flatMap((service) => listSourceNames(getValue(service, section))));
    for (const entry of listEntries(project[section])) {
      if (!names.has(entry.key)) note(entry, `no included service uses "${entry.key}"`);
    }
  }
  for (const entry of project.others) {
    if (entry.key === "version" || entry.key.startsWith("x-")) continue;
    lost(entry, `"${entry.key}" has no equivalent in Berth`);
  }
}

/** Reports variables outside of the services that are not set, or that cannot be expanded. */
function reportVariables(project: ComposeProject, findings: FindingList): void {
  const sections = [
    project.name,
    project.volumes,
    project.networks,
    project.secrets,
    project.configs,
    ...project.others.map(({ value }) => value),
  ];
  for (const scalar of sections.flatMap(collectScalars)) {
    const { failure } = scalar;
    if (failure === undefined) findings.addUnsetVariables(undefined, scalar);
    else findings.add("failed", undefined, scalar, failure, UNSET_HINT);
  }
}

type AddFinding = (target: ComposeNode | Entry, message: string) => void;

function reportVolume(
  entry: Entry,
  mounted: ReadonlySet<string>,
  note: AddFinding,
  lost: AddFinding,
): void {
  if (!mounted.has(entry.key)) {
    note(entry, `no included service uses the volume "${entry.key}"`);
    return;
  }
  const device = getValue(getValue(entry.value, "driver_opts"), "device");
  const isFolder = device?.kind === "scalar" && device.text.startsWith("/");
  for (const option of listEntries(entry.value)) {
    if (isNull(option.value) || ["name", "external"].includes(option.key)) continue;
    const isLocal = option.value.kind === "scalar" && option.value.text === "local";
    if (option.key === "labels") note(option, "volumes have only the labels of Berth");
    else if (option.key === "driver" && isLocal) continue;
    else if (option.key === "driver_opts" && isFolder) continue;
    else lost(option, `volumes of Berth are local volumes of the engine: ${option.key} is omitted`);
  }
}

function listSourceNames(node: ComposeNode | undefined): string[] {
  return listItems(node).flatMap((item) => {
    const source = item.kind === "map" ? getValue(item, "source") : item;
    return source?.kind === "scalar" ? [source.text] : [];
  });
}
