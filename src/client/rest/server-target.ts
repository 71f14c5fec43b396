/** A server that a client talks to, and the token that it sends. */
export interface ServerTarget {
  readonly url: string;
  readonly token: string | undefined;
  /** Where the server was found, for messages. */
  readonly origin: "--url" | "BERTH_URL" | "local" | "login";
  /** Id of the server, where it is the one of this machine's data directory. */
  readonly instance?: string;
}

/** The origin of a URL; the text itself if it is no URL. */
export function originOf(url: string): string {
  return URL.parse(url)?.origin ?? url;
}
