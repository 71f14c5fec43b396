/** A feature of a Dockerfile that the classic builder does not support. */
export interface BuildKitFeature {
  /** The line of the Dockerfile that uses the feature, counted from 1. */
  readonly line: number;
  readonly feature: string;
}

export function needsBuildKit(dockerfile: string): boolean {
  return findBuildKitFeatures(dockerfile).length > 0;
}

const buildKitFlags: Readonly<Record<string, readonly string[]>> = {
  RUN: ["mount", "network", "security", "device"],
  COPY: ["link", "chmod", "parents", "exclude"],
  ADD: ["link", "chmod", "checksum", "keep-git-dir", "exclude", "unpack"],
};
const heredocInstructions = ["RUN", "COPY", "ADD"];
/** Matches the build arguments that only BuildKit sets, such as TARGETARCH. */
const platformArguments = /\b(TARGET|BUILD)(PLATFORM|OS|ARCH|VARIANT)\b/;

/**
 * Finds the features that need BuildKit, in the order of their lines. A `# syntax=` line always selects a BuildKit
 * frontend.
 */
export function findBuildKitFeatures(dockerfile: string): readonly BuildKitFeature[] {
  const found: BuildKitFeature[] = [];
  const { directives, instructions } = parseDockerfile(dockerfile);
  for (const { line, name, value } of directives)
    if (name === "syntax") found.push({ line, feature: `# syntax=${value}` });
  for (const { line, text } of instructions) {
    // The instruction of an ONBUILD trigger runs in a later build, but the same rules apply to it.
    const inner = text.replace(/^ONBUILD\s+/i, "");
    const [, word = "", rest = ""] = /^([a-z]+)\s*([^]*)$/i.exec(inner) ?? [];
    const name = word.toUpperCase();
    for (const flag of readLeadingFlags(rest))
      if (buildKitFlags[name]?.includes(flag) === true)
        found.push({ line, feature: `${name} --${flag}` });
    if (heredocInstructions.includes(name) && hasHeredoc(rest))
      found.push({ line, feature: `${name} with a here-document` });
    const usesPlatform = name === "ARG" ? rest : name === "FROM" ? readPlatformFlag(rest) : "";
    const platform = platformArguments.exec(usesPlatform)?.[0];
    if (platform !== undefined) found.push({ line, feature: `${name} with ${platform}` });
  }
  return found;
}

function readLeadingFlags(rest: string): readonly string[] {
  const names: string[] = [];
  for (const word of rest.split(/\s+/)) {
    const name = /^--([a-z-]+)/.exec(word)?.[1];
    if (name === undefined) break;
    names.push(name);
  }
  return names;
}

function readPlatformFlag(rest: string): string {
  return /^--platform=(\S+)/.exec(rest)?.[1] ?? "";
}

/** Matches `<<EOF`, `<<-EOF` and `<<"EOF"`, but not the shell's `<<<` or arithmetic such as `1 << 2`. */
function hasHeredoc(rest: string): boolean {
  return /(^|[^<])<<-?(["']?)[A-Za-z_][A-Za-z0-9_]*\2/.test(rest);
}

interface Directive {
  readonly line: number;
  readonly name: string;
  readonly value: string;
}

interface Instruction {
  readonly line: number;
  readonly text: string;
}

/** Parses directives and instructions. Joins continuation lines, and skips comments and empty lines among them. */
function parseDockerfile(dockerfile: string): {
  directives: readonly Directive[];
  instructions: readonly Instruction[];
} {
  const lines = dockerfile.replace(/^\u{feff}/u, "").split(/\r?\n/);
  const directives: Directive[] = [];
  for (const [index, text] of lines.entries()) {
    const [, name = "", value = ""] = /^\s*#\s*([a-z]+)\s*=(.*)$/i.exec(text) ?? [];
    if (value.trim() === "") break;
    directives.push({ line: index + 1, name: name.toLowerCase(), value: value.trim() });
  }
  const escape = directives.find(({ name }) => name === "escape")?.value === "`" ? "`" : "\\";
  const instructions: Instruction[] = [];
  let begun: { readonly line: number; readonly parts: string[] } | undefined;
  const end = () => {
    if (begun) instructions.push({ line: begun.line, text: begun.parts.join(" ") });
    begun = undefined;
  };
  for (const [index, written] of lines.entries()) {
    const text = written.trim();
    if (text === "" || text.startsWith("#")) continue;
    begun ??= { line: index + 1, parts: [] };
    const isContinued = text.endsWith(escape);
    const part = isContinued ? text.slice(0, -1).trimEnd() : text;
    if (part !== "") begun.parts.push(part);
    if (!isContinued) end();
  }
  end();
  return { directives, instructions };
}
