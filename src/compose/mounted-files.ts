import { resolve } from "node:path";
import { secretName } from "./environment.ts";
import type { ServiceScope } from "./scope.ts";
import { type ComposeNode, isNull, valueAt } from "./tree.ts";

/** `secrets` and `configs`: files of the machine are mounted as before; the rest is reported. */
export function convertMountedFiles(scope: ServiceScope): void {
  for (const section of ["secrets", "configs"] as const) {
    const node = scope.get(section);
    for (const item of node?.kind === "list" ? node.items : []) {
      if (!isNull(item)) convertFile(scope, section, item);
    }
  }
}

function convertFile(scope: ServiceScope, section: "secrets" | "configs", item: ComposeNode): void {
  const name = scope.text(item.kind === "map" ? valueAt(item, "source") : item);
  const given = scope.text(valueAt(item, "target"));
  if (name === undefined) {
    scope.lost(item, "is left out: it names no source");
    return;
  }
  const folder = section === "secrets" ? "/run/secrets" : "";
  const target = given?.startsWith("/") ? given : `${folder}/${given ?? name}`;
  for (const entry of scope.entries(item)) {
    if (["source", "target"].includes(entry.key)) continue;
    scope.lost(entry, `${entry.key} is left out: the file is what it is on the machine`);
  }
  const declared = valueAt(scope.project[section], name);
  const file = valueAt(declared, "file");
  if (file?.kind === "scalar" && file.text !== "") {
    const hostPath = resolve(file.place.source.folder, file.text);
    scope.spec.volumes = [
      ...(scope.spec.volumes ?? []),
      { hostPath, path: target, readOnly: true },
    ];
    scope.note(
      item,
      `${target} is the file ${hostPath} of the machine that Berth runs on`,
      section === "secrets"
        ? "to keep it encrypted: `berth secrets set`, and a variable that refers to it"
        : undefined,
    );
    return;
  }
  if (!declared || isNull(declared)) {
    scope.lost(item, `there is no ${section.slice(0, -1)} "${name}" in the file`);
    return;
  }
  if (section === "secrets" && fromVariable(scope, item, target)) return;
  scope.lost(
    item,
    `${target} is missing: what it holds is not in a file of this machine`,
    `save it as a file, and mount that: volumes: [{ hostPath: /PATH, path: ${target}, readOnly: true }]`,
  );
}

/**
 * Images that read `NAME_FILE` read `NAME` as well, by custom. Where a variable names the file of a
 * secret that is no file, the value comes from a Secret in place of it.
 */
function fromVariable(scope: ServiceScope, item: ComposeNode, target: string): boolean {
  const readers = [...scope.env.values()].filter(
    ({ name, value }) => value === target && name.endsWith("_FILE"),
  );
  for (const { name, node } of readers) {
    const plain = name.slice(0, -"_FILE".length);
    const secret = secretName(scope.app);
    scope.env.delete(name);
    scope.references.set(plain, { secret, key: plain });
    scope.secretValues.push({ secret, key: plain });
    scope.note(
      node,
      `${name} has become ${plain}, taken from the Secret "${secret}": images that know the one know the other by custom`,
      `berth secrets set ${secret} ${plain}=VALUE`,
    );
  }
  if (readers.length === 0) return false;
  scope.note(item, `${target} is not mounted; the variables that named it take the value itself`);
  return true;
}
