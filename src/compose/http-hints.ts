import type { ComposeNode } from "./compose-tree.ts";

/** A host name with the place that asks for it. */
export interface WantedDomain {
  readonly domain: string;
  readonly node: ComposeNode;
}

/** What labels and variables for reverse proxies say about an app. */
export interface HttpHints {
  port?: number;
  readonly domains: WantedDomain[];
  /** Path prefixes, each once; an App has one. */
  readonly prefixes: Map<string, ComposeNode>;
  stripPrefix?: boolean;
}
