import type { ComposeNode } from "./compose-tree.ts";

/** The port on which a service serves HTTP. */
export interface WebPort {
  readonly port: number;
  /** Names the source of the port, such as "the label caddy.reverse_proxy". */
  readonly evidence: string;
  /** True for the HTTP API of a database or another program, to which a published port gives no domain. */
  readonly isPrivate?: true;
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
  /** The variable with which a catalog makes the service public, under a host name that the file does not contain. */
  route?: { readonly variable: string; readonly node: ComposeNode };
  /** True if a label tells the reverse proxy to ignore the service. */
  isDisabled?: boolean;
}
