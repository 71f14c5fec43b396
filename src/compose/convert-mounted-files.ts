import { resolve } from "node:path";
import type { AppFile } from "../resources/app-spec.ts";
import { type ComposeNode, getValue, isNull } from "./compose-tree.ts";
import { getSecretName } from "./convert-environment.ts";
import { describeReach } from "./describe-reach.ts";
import { REACH_HINT } from "./project-folder.ts";
import type { ServiceConversion } from "./service-conversion.ts";

/**
 * Converts `secrets` and `configs`: files of the machine become mounts, other secrets become files with a value of a
 * Secret, and other configs become files with their content.
 */
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
    conversion.addLoss(item, "this value is omitted: it does not name its source");
    return;
  }
  const folder = section === "secrets" ? "/run/secrets" : "";
  const target = given?.startsWith("/") ? given : `${folder}/${given ?? name}`;
  const declared = getValue(conversion.project[section], name);
  const file = getValue(declared, "file");
  if (file?.kind === "scalar" && file.text !== "") {
    reportOptions(conversion, item, ["source", "target"], "the file keeps its owner and mode");
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
        ? "to store the value encrypted, use `berth secrets set` and a variable that refers to the Secret"
        : undefined,
    );
    return;
  }
  if (!declared || isNull(declared)) {
    conversion.addLoss(item, `there is no ${section.slice(0, -1)} "${name}" in the Compose file`);
    return;
  }
  const mode = convertMode(conversion, getValue(item, "mode"));
  const place = { path: target, ...(mode !== undefined && { mode }) };
  reportOptions(
    conversion,
    item,
    ["source", "target", "mode"],
    "Berth itself owns the files that it creates for apps",
  );
  const content = readContent(conversion, declared);
  if (section === "secrets") {
    const secret = getSecretName(conversion.app);
    addFile(conversion, { ...place, from: { secret, key: name } });
    conversion.secretValues.push({ secret, key: name });
    conversion.addChange(
      item,
      `${target} has the value from the Secret "${secret}"`,
      `berth secrets set ${secret} ${name}=VALUE`,
    );
  } else if (content !== undefined) {
    addFile(conversion, { ...place, content });
    conversion.markHandled(item);
  } else {
    conversion.addLoss(
      item,
      `${target} is missing: its content is not in the Compose file`,
      `add the file to the app: files: [{ path: ${target}, content: TEXT }]`,
    );
  }
}

function addFile({ spec }: ServiceConversion, file: AppFile): void {
  spec.files = [...(spec.files ?? []), file];
}

/** Returns the content of a config that is in the Compose file or in a variable; undefined if it is elsewhere. */
function readContent(conversion: ServiceConversion, declared: ComposeNode): string | undefined {
  const content = getValue(declared, "content");
  if (content?.kind === "scalar") return content.text;
  const variable = getValue(declared, "environment");
  return variable?.kind === "scalar" ? conversion.project.variables.get(variable.text) : undefined;
}

/** Returns the permissions of a file, which Compose writes as an octal number; undefined for the default. */
function convertMode(
  conversion: ServiceConversion,
  node: ComposeNode | undefined,
): string | undefined {
  const text = conversion.readText(node);
  if (node === undefined || text === undefined) return undefined;
  const [, digits] = /^0?o?([0-7]{3})$/.exec(text) ?? [];
  if (digits !== undefined) return `0${digits}`;
  conversion.addLoss(node, `${text} is omitted: it is not an octal mode such as 0440`);
  return undefined;
}

function reportOptions(
  conversion: ServiceConversion,
  item: ComposeNode,
  known: readonly string[],
  reason: string,
): void {
  for (const entry of conversion.listEntries(item))
    if (!known.includes(entry.key)) conversion.addLoss(entry, `${entry.key} is omitted: ${reason}`);
}
