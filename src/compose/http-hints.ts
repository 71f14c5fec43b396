import type { ComposeNode } from "./compose-tree.ts";

/** A host name with the value that declares it. */
export interface WantedDomain {
  readonly domain: string;
  readonly node: ComposeNode;
}

/** The routes of an app, from labels and variables for reverse proxies. */
export interface HttpHints {
  port?: number;
  readonly domains: WantedDomain[];
  /** The path prefixes; an App can have only one. */
  readonly prefixes: Map<string, ComposeNode>;
  stripPrefix?: boolean;
}
