import { posix, relative, resolve } from "node:path";
import { isInsidePath } from "../resources/field-checks.ts";
import { forbiddenKeys } from "../resources/plain-value.ts";
import { type ComposeNode, getValue, isNull, listEntries, type Scalar } from "./compose-tree.ts";
import { describeReach } from "./describe-reach.ts";
import { asMapping } from "./merge-services.ts";
import { REACH_HINT } from "./project-folder.ts";
import type { ServiceConversion } from "./service-conversion.ts";

/** Keys that are ignored, because they concern only caching and names and do not change the content of the image. */
const ignoredBuildKeys: readonly string[] = [
  "cache_from",
  "cache_to",
  "labels",
  "no_cache",
  "pull",
  "tags",
  "provenance",
  "sbom",
  "platforms",
];

/** Converts `build` to a source: a folder relative to the spec file, or a git repository. */
export function convertBuild(conversion: ServiceConversion, node: ComposeNode): void {
  const image = conversion.getNode("image");
  if (image) {
    conversion.addNote(
      image,
      "the name of the image is omitted: the image is built from source, and Berth names it",
    );
  }
  const context = node.kind === "map" ? getValue(node, "context") : node;
  const text = conversion.readText(context) ?? ".";
  const folder = (context ?? node).place.source.folder;
  const dockerfile = getValue(node, "dockerfile");
  const file = conversion.readText(dockerfile);
  const inline = conversion.readText(getValue(node, "dockerfile_inline"));
  if (inline !== undefined) conversion.spec.build = { inline };
  if (inline !== undefined && !copiesFiles(inline)) {
    conversion.spec.source = { empty: true };
    if (context && text !== ".")
      conversion.addNote(context, "is omitted: the Dockerfile in the file copies nothing from it");
  } else if (/^(https?|git|ssh):\/\/|^git@|^github\.com\//.test(text)) {
    convertGit(conversion, text);
  } else {
    const path = relative(conversion.options.specFolder, resolve(folder, text));
    conversion.spec.source = { local: path === "" ? "." : path };
    const reach = describeReach(conversion, resolve(folder, text), true);
    if (reach !== undefined) {
      conversion.addUnhandledFinding("unsafe", context ?? node, reach, REACH_HINT);
      conversion.markHandled(context);
    } else if (context && path.startsWith("..")) {
      conversion.addNote(
        context,
        `the source is ${path}, outside the folder of the spec file`,
        "keep the relative position of both, or write the spec files into the folder of the source",
      );
    }
  }
  if (dockerfile && inline !== undefined)
    conversion.addLoss(dockerfile, "dockerfile_inline takes precedence");
  else if (dockerfile && file !== undefined) convertDockerfile(conversion, dockerfile, file);
  const target = getValue(node, "target");
  const stage = conversion.readText(target);
  if (stage) conversion.spec.build = { ...conversion.spec.build, target: stage };
  convertArguments(conversion, getValue(node, "args"));
  for (const entry of conversion.listEntries(node.kind === "map" ? node : undefined)) {
    const { key } = entry;
    if (["context", "dockerfile", "dockerfile_inline", "target", "args"].includes(key)) continue;
    if (ignoredBuildKeys.includes(key))
      conversion.addNote(entry, `Berth decides build.${key} itself`);
    else conversion.addLoss(entry, `a build has no ${key}`);
  }
}

/** True if an instruction of a Dockerfile may copy or mount files of the build context. */
function copiesFiles(dockerfile: string): boolean {
  return dockerfile
    .replaceAll(/\\\r?\n/g, " ")
    .split("\n")
    .some((line) => {
      const isCopy = /^\s*(COPY|ADD)\s/i.test(line);
      const isOther = /\s--from=/.test(line) || /^\s*\w+\s+(--\S+\s+)*<</.test(line);
      return (isCopy && !isOther) || /--mount=(?!type=(cache|secret|ssh|tmpfs))/.test(line);
    });
}

/** Sets the Git source of an App from a build context such as `https://host/repository.git#ref:folder`. */
function convertGit(conversion: ServiceConversion, text: string): void {
  const [address = "", fragment = ""] = text.split("#", 2);
  const [ref = "", path = ""] = fragment.split(":", 2);
  const url = address
    .replace(/^github\.com\//, "https://github.com/")
    .replace(/^git:\/\//, "https://");
  conversion.spec.source = {
    git: { url, ...(ref === "" ? {} : { ref }), ...(path === "" ? {} : { path }) },
  };
}

function convertDockerfile(conversion: ServiceConversion, node: ComposeNode, file: string): void {
  const path = posix.normalize(file);
  if (file !== "" && isInsidePath(path))
    conversion.spec.build = { ...conversion.spec.build, dockerfile: path };
  else {
    conversion.addLoss(
      node,
      `"${file}" is outside the folder that is built, so the build cannot read it`,
      "copy the file into that folder, and set build.dockerfile",
    );
  }
}

function convertArguments(conversion: ServiceConversion, node: ComposeNode | undefined): void {
  if (!node || isNull(node)) return;
  conversion.markHandled(node);
  const args: Record<string, string> = {};
  for (const { key, value } of listEntries(asMapping(node))) {
    const given = resolveArgument(conversion, key, value);
    if (given === undefined || forbiddenKeys.has(key) || !/^[A-Za-z_][A-Za-z0-9_]*$/.test(key)) {
      conversion.addLoss(value, `the build argument ${key} has no value that can be converted`);
    } else args[key] = given;
  }
  if (Object.keys(args).length > 0) conversion.spec.build = { ...conversion.spec.build, args };
}

function resolveArgument(
  conversion: ServiceConversion,
  key: string,
  value: ComposeNode,
): string | undefined {
  if (value.kind !== "scalar") return undefined;
  const scalar: Scalar = value;
  return isNull(scalar) ? conversion.project.variables.get(key) : scalar.text;
}
