import type { SourceReader } from "./source-reader.ts";
import { findToolVersion } from "./tool-version.ts";

/** The version of Ruby if the source names none. */
const DEFAULT_RUBY = "3.4";

/** Lists the gems that a Gemfile names. Gems that it adds by Ruby code are not found. */
export function listGems(gemfile: string): ReadonlySet<string> {
  return new Set(
    [...gemfile.matchAll(/^\s*gem[\s(]+["']([\w.-]+)["']/gm)].map(([, name = ""]) => name),
  );
}

/** Lists all gems in Gemfile.lock, with those that other gems need. */
export async function listLockedGems(reader: SourceReader): Promise<ReadonlySet<string>> {
  const text = (await reader.read("Gemfile.lock")) ?? "";
  return new Set([...text.matchAll(/^ {4}([\w.-]+) \(/gm)].map(([, name = ""]) => name));
}

/**
 * Reads the version of Ruby from the Gemfile, .ruby-version, the files of version managers, or Gemfile.lock, in this
 * order.
 */
export async function readRubyVersion(
  reader: SourceReader,
  gemfile: string,
): Promise<{ readonly version: string; readonly from: readonly string[] }> {
  const written = /^\s*ruby[\s(]+["'](?:~>|>=|=)?\s*(\d+(?:\.\d+){0,2})/m.exec(gemfile)?.[1];
  if (written !== undefined) return { version: written, from: ["Gemfile"] };
  const tool = await findToolVersion(reader, ["ruby"], [".ruby-version"]);
  const version = /^(?:ruby-)?(\d+(?:\.\d+){0,2})/.exec(tool?.version ?? "")?.[1];
  if (tool !== undefined && version !== undefined) return { version, from: [tool.from] };
  if (tool?.version === "latest") return { version: "4", from: [tool.from] };
  const lock = (await reader.read("Gemfile.lock")) ?? "";
  const locked = /^RUBY VERSION\n\s+ruby (\d+\.\d+\.\d+)/m.exec(lock)?.[1];
  return locked === undefined
    ? { version: DEFAULT_RUBY, from: [] }
    : { version: locked, from: ["Gemfile.lock"] };
}
