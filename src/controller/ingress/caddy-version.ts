/** Parses the version in the output of `caddy version`: `v2.8.4 h1:...`, `2.6.2`; undefined if there is none. */
export function parseCaddyVersion(text: string): string | undefined {
  return /\bv?(\d+\.\d+(?:\.\d+)?)/.exec(text)?.[1];
}

export function isAtLeast(version: string, major: number, minor: number): boolean {
  const [a = 0, b = 0] = version.split(".").map(Number);
  return a > major || (a === major && b >= minor);
}
