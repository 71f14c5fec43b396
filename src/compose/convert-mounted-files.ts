import { resolve } from "node:path";
import { type ComposeNode, collectScalars, getValue, isNull } from "./compose-tree.ts";
import { getSecretName } from "./convert-environment.ts";
import { describeReach } from "./describe-reach.ts";
import { REACH_HINT } from "./project-folder.ts";
import type { ServiceConversion } from "./service-conversion.ts";

/** Converts `secrets` and `configs`: those that are files of the machine become mounts, and all others are reported. */
export function convertMountedFiles(conversion: ServiceConversion): void {
  for (const section of ["secrets", "configs"] as const) {
    const node = conversion.getNode(section);
    for (const item of node?.kind === "list" ? node.items : []) {
      if (!isNull(item)) convertMountedFile(conversion, section, item);
    }
  }
}

function convertMountedFile(
  conversion: ServiceConversion,
  section: "secrets" | "configs",
  item: ComposeNode,
): void {
  const name = conversion.readText(item.kind === "map" ? getValue(item, "source") : item);
  const given = conversion.readText(getValue(item, "target"));
  if (name === undefined) {
    conversion.addLoss(item, "is omitted: it names no source");
    return;
  }
  const folder = section === "secrets" ? "/run/secrets" : "";
  const target = given?.startsWith("/") ? given : `${folder}/${given ?? name}`;
  for (const entry of conversion.listEntries(item)) {
    if (["source", "target"].includes(entry.key)) continue;
    conversion.addLoss(entry, `${entry.key} is omitted: the file keeps its owner and mode`);
  }
  const declared = getValue(conversion.project[section], name);
  const file = getValue(declared, "file");
  if (file?.kind === "scalar" && file.text !== "") {
    const hostPath = resolve(file.place.source.folder, file.text);
    conversion.spec.volumes = [
      ...(conversion.spec.volumes ?? []),
      { hostPath, path: target, readOnly: true },
    ];
    const reach = describeReach(conversion, hostPath, true);
    if (reach !== undefined) conversion.addUnhandledFinding("unsafe", item, reach, REACH_HINT);
    conversion.addNote(
      item,
      `${target} is the file ${hostPath} of the machine that runs Berth`,
      section === "secrets"
        ? "to store it encrypted, use `berth secrets set` and a variable that refers to the Secret"
        : undefined,
    );
    return;
  }
  if (!declared || isNull(declared)) {
    conversion.addLoss(item, `there is no ${section.slice(0, -1)} "${name}" in the file`);
    return;
  }
  const hint = `save it as a file, and mount that: volumes: [{ hostPath: /PATH, path: ${target}, readOnly: true }]`;
  if (section === "secrets" && isReadByCommand(conversion, target)) {
    conversion.addUnsafe(
      item,
      `${target} is missing, and the service's own command reads it: it may run without this secret`,
      hint,
    );
    return;
  }
  if (section === "secrets" && replaceFileVariables(conversion, item, target)) return;
  conversion.addLoss(
    item,
    `${target} is missing: its content is not in a file of this machine`,
    hint,
  );
}

/**
 * Returns true if a command line of the service contains the file's path, or a variable whose value is this path. Such
 * a use rules out a replacement of the variable `NAME_FILE` by `NAME`.
 */
function isReadByCommand(conversion: ServiceConversion, target: string): boolean {
  const words = ["command", "entrypoint", "healthcheck"]
    .flatMap((key) => collectScalars(conversion.getNode(key)))
    .map(({ text }) => text);
  const names = [...conversion.env.values()]
    .filter(({ value }) => value === target)
    .map(({ name }) => name);
  return words.some((word) => [target, ...names].some((part) => word.includes(part)));
}

/**
 * Replaces variables that name a missing file by variables that get their value from a Secret: by convention, images
 * that read `NAME_FILE` also read `NAME`. Returns false if no variable names the file.
 */
function replaceFileVariables(
  conversion: ServiceConversion,
  item: ComposeNode,
  target: string,
): boolean {
  const readers = [...conversion.env.values()].filter(
    ({ name, value }) => value === target && name.endsWith("_FILE"),
  );
  for (const { name, node } of readers) {
    const plain = name.slice(0, -"_FILE".length);
    const secret = getSecretName(conversion.app);
    conversion.env.delete(name);
    conversion.secretReferences.set(plain, { secret, key: plain });
    conversion.secretValues.push({ secret, key: plain });
    conversion.addChange(
      node,
      `${name} has become ${plain}, with the value from the Secret "${secret}": images that read ${name} usually also read ${plain}`,
      `berth secrets set ${secret} ${plain}=VALUE`,
    );
  }
  if (readers.length === 0) return false;
  conversion.addNote(
    item,
    `${target} is not mounted; the variables that named it are replaced by variables with its value`,
  );
  return true;
}
