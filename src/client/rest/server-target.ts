/** A server and the token for it. */
export interface ServerTarget {
  readonly url: string;
  readonly token: string | undefined;
  /** The setting that determined the URL, for messages. */
  readonly origin: "--url" | "BERTH_URL" | "local" | "login";
  /** The instance id of the server, if it is the server of this machine's data directory. */
  readonly instance?: string;
}

/** Returns the origin of a URL, or the text itself if it is not a URL. */
export function originOf(url: string): string {
  return URL.parse(url)?.origin ?? url;
}
