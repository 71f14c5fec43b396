import { posix, relative, resolve } from "node:path";
import { staysInside } from "../resources/check-fields.ts";
import { asMapping } from "./merge.ts";
import type { ServiceScope } from "./scope.ts";
import { type ComposeNode, entriesOf, isNull, type Scalar, valueAt } from "./tree.ts";

/** Keys that make a build faster or name its result, and change nothing of what is in it. */
const cosmetic: readonly string[] = [
  "cache_from",
  "cache_to",
  "labels",
  "no_cache",
  "pull",
  "tags",
  "provenance",
  "sbom",
];

/** `build` as a source: a folder beside the spec file, or a git repository. */
export function convertBuild(scope: ServiceScope, node: ComposeNode): void {
  const image = scope.get("image");
  if (image) {
    scope.note(image, "the image is built from source, and Berth names it: the name is left out");
  }
  const context = node.kind === "map" ? valueAt(node, "context") : node;
  const text = scope.text(context) ?? ".";
  const folder = (context ?? node).place.source.folder;
  const dockerfile = valueAt(node, "dockerfile");
  const file = scope.text(dockerfile);
  if (/^(https?|git|ssh):\/\/|^git@|^github\.com\//.test(text)) {
    convertGit(scope, text);
  } else {
    const path = relative(scope.options.specFolder, resolve(folder, text));
    scope.spec.source = { local: path === "" ? "." : path };
    if (context && path.startsWith("..")) {
      scope.note(
        context,
        `the source is ${path}, outside of the folder of the spec file`,
        "keep both where they are to each other, or write the spec files beside the source",
      );
    }
  }
  if (dockerfile && file !== undefined) convertDockerfile(scope, dockerfile, file);
  const target = valueAt(node, "target");
  const stage = scope.text(target);
  if (stage) scope.spec.build = { ...scope.spec.build, target: stage };
  convertArguments(scope, valueAt(node, "args"));
  for (const entry of scope.entries(node.kind === "map" ? node : undefined)) {
    const { key } = entry;
    if (["context", "dockerfile", "target", "args"].includes(key)) continue;
    if (key === "dockerfile_inline") {
      scope.lost(
        entry,
        "a Dockerfile cannot stand in a spec",
        "save it as Dockerfile in the folder that is built",
      );
    } else if (cosmetic.includes(key)) scope.note(entry, `build.${key} is Berth's own business`);
    else scope.lost(entry, `a build has no ${key}`);
  }
}

/** `https://host/repository.git#ref:folder`. */
function convertGit(scope: ServiceScope, text: string): void {
  const [address = "", fragment = ""] = text.split("#", 2);
  const [ref = "", path = ""] = fragment.split(":", 2);
  const url = address
    .replace(/^github\.com\//, "https://github.com/")
    .replace(/^git:\/\//, "https://");
  scope.spec.source = {
    git: { url, ...(ref === "" ? {} : { ref }), ...(path === "" ? {} : { path }) },
  };
}

function convertDockerfile(scope: ServiceScope, node: ComposeNode, file: string): void {
  const path = posix.normalize(file);
  if (file !== "" && staysInside(path))
    scope.spec.build = { ...scope.spec.build, dockerfile: path };
  else {
    scope.lost(
      node,
      `"${file}" is outside of the folder that is built, where a build sees nothing`,
      "copy it into that folder, and set build.dockerfile",
    );
  }
}

function convertArguments(scope: ServiceScope, node: ComposeNode | undefined): void {
  if (!node || isNull(node)) return;
  scope.take(node);
  const args: Record<string, string> = {};
  for (const { key, value } of entriesOf(asMapping(node))) {
    const given = argumentText(scope, key, value);
    if (given === undefined || !/^[A-Za-z_][A-Za-z0-9_]*$/.test(key)) {
      scope.lost(value, `the build argument ${key} has no value that can be carried over`);
    } else args[key] = given;
  }
  if (Object.keys(args).length > 0) scope.spec.build = { ...scope.spec.build, args };
}

function argumentText(scope: ServiceScope, key: string, value: ComposeNode): string | undefined {
  if (value.kind !== "scalar") return undefined;
  const scalar: Scalar = value;
  return isNull(scalar) ? scope.project.variables.get(key) : scalar.text;
}
