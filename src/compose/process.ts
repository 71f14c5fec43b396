import { imageProblem } from "../resources/check-fields.ts";
import { composeDuration } from "./quantities.ts";
import type { ServiceScope } from "./scope.ts";
import { shellWords } from "./shell-words.ts";
import type { ComposeNode } from "./tree.ts";

/** What runs, as whom, where, and how it ends. */
export function convertProcess(scope: ServiceScope): void {
  const { spec } = scope;
  for (const key of ["entrypoint", "command"] as const) {
    const node = scope.get(key);
    if (!node) continue;
    const words = commandWords(scope, node);
    if (!words) continue;
    scope.take(node);
    if (words.length > 0) spec[key] = words;
    else {
      scope.lost(
        node,
        `an empty ${key} takes the image's own away, which an App cannot`,
        key === "entrypoint" ? "set entrypoint to the program that is to run" : undefined,
      );
    }
  }
  const user = scope.get("user");
  if (user) spec.user = scope.text(user) ?? "";
  if (spec.user === "") delete spec.user;
  const workingDir = scope.get("working_dir");
  if (workingDir) convertWorkingDir(scope, workingDir);
  const grace = scope.get("stop_grace_period");
  const duration = grace && composeDuration(scope, grace);
  if (duration !== undefined) spec.stopGracePeriod = duration;
  const signal = scope.get("stop_signal");
  if (signal && !/^(SIG)?TERM$|^15$/.test(scope.text(signal) ?? "")) {
    scope.lost(
      signal,
      "Berth stops containers with the signal that the image names, or SIGTERM",
      "set STOPSIGNAL in the image",
    );
  }
  convertPullPolicy(scope);
}

/** The image of a service that is not built. */
export function convertImage(scope: ServiceScope): void {
  const node = scope.get("image");
  if (!node) {
    scope.mentionService("failed", "has neither an image nor something to build");
    return;
  }
  const image = scope.text(node) ?? "";
  const problem = image === "" ? "is empty" : imageProblem(image);
  if (problem === undefined) scope.spec.image = image;
  else scope.fail(node, `the image "${image}" ${problem}`);
}

/** A command line, or a list of words as they are. */
function commandWords(scope: ServiceScope, node: ComposeNode): string[] | undefined {
  if (node.kind === "list") return scope.texts(node).map(({ text }) => text);
  const text = scope.text(node);
  if (text === undefined) return undefined;
  const words = shellWords(text);
  if (!words) scope.fail(node, "has a quotation mark or a backslash that nothing follows");
  return words;
}

function convertWorkingDir(scope: ServiceScope, node: ComposeNode): void {
  const path = scope.text(node) ?? "";
  if (path.startsWith("/") && !path.split("/").includes("..")) scope.spec.workingDir = path;
  else scope.lost(node, `"${path}" is not an absolute path`, "set workingDir to the whole path");
}

function convertPullPolicy(scope: ServiceScope): void {
  const node = scope.get("pull_policy");
  if (!node) return;
  const policy = scope.text(node) ?? "";
  if (policy === "always") scope.spec.pullPolicy = "Always";
  else if (/^(missing|if_not_present)$/.test(policy)) scope.spec.pullPolicy = "IfNotPresent";
  else if (policy === "build" && scope.get("build")) scope.take(node);
  else {
    scope.lost(
      node,
      `there is no pull policy "${policy}"; an image is pulled where it is missing`,
      "pullPolicy: Always pulls once for each new version",
    );
  }
}
