import type { Ulimits } from "../resources/app-privilege-spec.ts";
import { type ComposeNode, getValue, type Scalar } from "./compose-tree.ts";
import type { ServiceConversion } from "./service-conversion.ts";

/** Other names of architectures, with those that engines use. */
const architectures: Readonly<Record<string, string>> = {
  x86_64: "amd64",
  "x86-64": "amd64",
  aarch64: "arm64",
  armhf: "arm/v7",
  armel: "arm/v6",
  i386: "386",
};

/** Converts the platform of the image, and the limits of the processes. */
export function convertLimits(conversion: ServiceConversion): void {
  convertPlatform(conversion);
  const ulimits: Ulimits = {};
  for (const { key, value } of conversion.listEntries(conversion.getNode("ulimits"))) {
    const limit = readLimit(conversion, value);
    if (limit === undefined)
      conversion.addLoss(
        value,
        `ulimits.${key} is omitted: it is no number, and has no soft and hard`,
      );
    else ulimits[key] = limit;
  }
  if (Object.keys(ulimits).length > 0) conversion.spec.ulimits = ulimits;
}

function convertPlatform(conversion: ServiceConversion): void {
  const node = conversion.getNode("platform");
  const text = node && conversion.readText(node);
  if (!node || text === undefined || text === "") return;
  const [os = "", ...rest] = text.includes("/") ? text.split("/") : ["linux", text];
  const [architecture = "", ...variant] = rest;
  const platform = [os, architectures[architecture] ?? architecture, ...variant].join("/");
  if (/^linux\/[a-z0-9_]+(\/[a-z0-9]+)?$/.test(platform)) conversion.spec.platform = platform;
  else
    conversion.addLoss(node, `"${text}" is no platform of Linux containers, such as linux/arm64`);
}

/** Returns a limit, which Compose writes as a number or as `soft` and `hard`; undefined for any other value. */
function readLimit(conversion: ServiceConversion, node: ComposeNode): Ulimits[string] | undefined {
  if (node.kind === "scalar") return readNumber(conversion, node);
  const [soft, hard] = ["soft", "hard"].map((key) => {
    const value = getValue(node, key);
    return value?.kind === "scalar" ? readNumber(conversion, value) : undefined;
  });
  return soft === undefined || hard === undefined ? undefined : { soft, hard };
}

function readNumber(conversion: ServiceConversion, node: Scalar): number | undefined {
  const text = conversion.readText(node) ?? "";
  return /^(-1|\d{1,15})$/.test(text) ? Number(text) : undefined;
}
