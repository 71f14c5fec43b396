import { intersects, minVersion, valid, validRange } from "semver";
import type { NodePackage } from "./node-package.ts";
import { getText } from "./parsed-fields.ts";
import type { SourceReader } from "./source-reader.ts";
import { findToolVersion } from "./tool-version.ts";

/** Major versions of Node.js, in order of preference. The first is the current one with long-term support. */
const NODE_MAJORS = [24, 22, 26, 20, 18];
const LATEST_MAJOR = 26;
/** The names of releases with long-term support, as files of nvm use them. */
const LTS_NAMES: Readonly<Record<string, number>> = {
  krypton: 24,
  jod: 22,
  iron: 20,
  hydrogen: 18,
};

export interface NodeVersion {
  /** The tag of the image: an exact version if the source asks for one, otherwise a major version. */
  readonly tag: string;
  /** The file that asks for the version; undefined if none does. */
  readonly from: string | undefined;
}

/**
 * Chooses the version of Node.js. The files of version managers come first, then `volta` and `engines.node` in
 * package.json. Of a range, returns the first of NODE_MAJORS that is in it. If none is in it, returns the lowest major
 * version of the range.
 */
export async function chooseNodeVersion(
  reader: SourceReader,
  pkg: NodePackage,
): Promise<NodeVersion> {
  const tool = await findToolVersion(reader, ["node", "nodejs"], [".nvmrc", ".node-version"]);
  const asked = [
    [tool?.from ?? "", tool?.version],
    ["package.json", pkg.volta],
    ["package.json", getText(pkg.engines, "node")],
  ] as const;
  for (const [from, written] of asked) {
    const tag = written === undefined ? undefined : readTag(written.trim());
    if (tag !== undefined) return { tag, from };
  }
  return { tag: String(NODE_MAJORS[0]), from: undefined };
}

function readTag(written: string): string | undefined {
  if (/^(latest|node|current)$/.test(written)) return String(LATEST_MAJOR);
  const lts = /^lts(?:[/-](\S+))?$/.exec(written.toLowerCase());
  if (lts !== null) return String(LTS_NAMES[lts[1] ?? ""] ?? NODE_MAJORS[0]);
  const exact = valid(written);
  if (exact !== null) return exact;
  const range = validRange(written);
  if (range === null || range === "*") return undefined;
  const major =
    NODE_MAJORS.find((candidate) => intersects(`${candidate}.x`, range)) ??
    minVersion(range)?.major;
  return major === undefined ? undefined : String(major);
}
