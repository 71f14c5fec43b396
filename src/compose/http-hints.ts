import type { ComposeNode } from "./compose-tree.ts";

/** The port on which a service serves HTTP. */
export interface WebPort {
  readonly port: number;
  /** Names the source of the port, such as "the label caddy.reverse_proxy". */
  readonly evidence: string;
}

/** A host name that the app should have, with the label or variable that declares the host name. */
export interface WantedDomain {
  readonly domain: string;
  readonly node: ComposeNode;
}

/** The wanted routes of an app, read from labels and variables for reverse proxies. */
export interface HttpHints {
  port?: WebPort;
  readonly domains: WantedDomain[];
  /**
   * The path prefixes that labels or variables declare, each with the node that declares it. An App can have only one
   * prefix.
   */
  readonly prefixes: Map<string, ComposeNode>;
  stripPrefix?: boolean;
  /** True if a label tells the reverse proxy to ignore the service. */
  isDisabled?: boolean;
}
