import { findImageProblem } from "../resources/field-checks.ts";
import type { ComposeNode } from "./compose-tree.ts";
import { convertDuration } from "./quantities.ts";
import type { ServiceConversion } from "./service-conversion.ts";
import { splitShellWords } from "./shell-words.ts";

/** Converts the command, the user, the working directory, the stop signal and the pull policy. */
export function convertProcess(conversion: ServiceConversion): void {
  const { spec } = conversion;
  for (const key of ["entrypoint", "command"] as const) {
    const node = conversion.getNode(key);
    if (!node) continue;
    const words = readCommandWords(conversion, node);
    if (!words) continue;
    conversion.markHandled(node);
    if (words.length > 0) spec[key] = words;
    else {
      conversion.addLoss(
        node,
        `an empty ${key} would remove the one of the image, which an App cannot do`,
        key === "entrypoint" ? "set entrypoint to the program to run" : undefined,
      );
    }
  }
  const user = conversion.getNode("user");
  if (user) spec.user = conversion.readText(user) ?? "";
  if (spec.user === "") delete spec.user;
  const workingDir = conversion.getNode("working_dir");
  if (workingDir) convertWorkingDir(conversion, workingDir);
  const grace = conversion.getNode("stop_grace_period");
  const duration = grace && convertDuration(conversion, grace);
  if (duration !== undefined) spec.stopGracePeriod = duration;
  const signal = conversion.getNode("stop_signal");
  if (signal && !/^(SIG)?TERM$|^15$/.test(conversion.readText(signal) ?? "")) {
    conversion.addLoss(
      signal,
      "Berth stops containers with the STOPSIGNAL of the image, or SIGTERM",
      "set STOPSIGNAL in the image",
    );
  }
  convertPullPolicy(conversion);
}

/** Converts the image of a service without `build`. */
export function convertImage(conversion: ServiceConversion): void {
  const node = conversion.getNode("image");
  if (!node) {
    conversion.addServiceFinding("failed", "this service has neither an image nor a build");
    return;
  }
  const image = conversion.readText(node) ?? "";
  const problem = image === "" ? "is empty" : findImageProblem(image);
  if (problem === undefined) conversion.spec.image = image;
  else conversion.addFailure(node, `the image "${image}" ${problem}`);
}

/** Reads the words of a command, which is a list or one command line. */
function readCommandWords(conversion: ServiceConversion, node: ComposeNode): string[] | undefined {
  if (node.kind === "list") return conversion.readTexts(node).map(({ text }) => text);
  const text = conversion.readText(node);
  if (text === undefined) return undefined;
  const words = splitShellWords(text);
  if (!words)
    conversion.addFailure(
      node,
      "this command has an unclosed quotation mark, or a backslash at its end",
    );
  return words;
}

function convertWorkingDir(conversion: ServiceConversion, node: ComposeNode): void {
  const path = conversion.readText(node) ?? "";
  if (path.startsWith("/") && !path.split("/").includes("..")) conversion.spec.workingDir = path;
  else
    conversion.addLoss(
      node,
      `"${path}" is not an absolute path`,
      "set workingDir to the absolute path",
    );
}

function convertPullPolicy(conversion: ServiceConversion): void {
  const node = conversion.getNode("pull_policy");
  if (!node) return;
  const policy = conversion.readText(node) ?? "";
  if (policy === "always") conversion.spec.pullPolicy = "Always";
  else if (/^(missing|if_not_present)$/.test(policy)) conversion.spec.pullPolicy = "IfNotPresent";
  else if (policy === "build" && conversion.getNode("build")) conversion.markHandled(node);
  else {
    conversion.addLoss(
      node,
      `there is no pull policy "${policy}"; Berth pulls an image that is missing`,
      "with pullPolicy: Always, Berth asks the registry at each deploy",
    );
  }
}
