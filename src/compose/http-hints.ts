import type { ComposeNode } from "./compose-tree.ts";

/** A host name that the app should have, with the value that declares it. */
export interface WantedDomain {
  readonly domain: string;
  readonly node: ComposeNode;
}

/** The wanted routes of an app, read from labels and variables for reverse proxies. */
export interface HttpHints {
  port?: number;
  readonly domains: WantedDomain[];
  /** The path prefixes that were found; an App can have only one. */
  readonly prefixes: Map<string, ComposeNode>;
  stripPrefix?: boolean;
}
