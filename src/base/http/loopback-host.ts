/** The names and addresses of this machine in a Host or Origin header, with or without a port. */
const pattern = String.raw`(?:localhost\.?|127(?:\.\d{1,3}){3}|\[(?:::1|0:0:0:0:0:0:0:1|::ffff:127(?:\.\d{1,3}){3})\])(?::\d{1,5})?`;
const loopbackHost = new RegExp(`^${pattern}$`, "i");

/** Matches an Origin header that names this machine, such as `http://localhost:3000`. */
export const loopbackOrigin = new RegExp(`^https?://${pattern}$`, "i");

/**
 * True if a Host header names this machine. A page whose DNS name was pointed at this machine (DNS rebinding) sends
 * that DNS name instead.
 */
export function isLoopbackHost(host: string): boolean {
  return loopbackHost.test(host);
}

/**
 * Returns all Host headers. If a request has two, Node uses the first one, but a browser or a proxy may use the
 * second one. In `rawHeaders`, names and values alternate.
 */
export function getHostHeaders(rawHeaders: readonly string[]): readonly string[] {
  return rawHeaders.filter(
    (_, index) => index % 2 === 1 && rawHeaders[index - 1]?.toLowerCase() === "host",
  );
}
