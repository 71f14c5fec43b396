/**
 * Returns the port on which an image listens: the first TCP port of the EXPOSE lines in the last stage of its
 * Dockerfile. Undefined if there is none, or if it is a variable. Pure.
 */
export function parseExposedPort(dockerfile: string): number | undefined {
  let port: number | undefined;
  for (const line of dockerfile.replaceAll(/\\[ \t]*\r?\n/g, " ").split(/\r?\n/)) {
    // Each stage is a separate image.
    if (/^\s*FROM\s/i.test(line)) port = undefined;
    const exposed = /^\s*EXPOSE\s+(.+)$/i.exec(line)?.[1];
    if (exposed === undefined) continue;
    const numbers = exposed.split(/\s+/).map((word) => /^(\d{1,5})(?:\/tcp)?$/i.exec(word)?.[1]);
    const first = numbers.map(Number).find((number) => number >= 1 && number <= 65_535);
    port ??= first;
  }
  return port;
}
