/**
 * The kinds of data that a request to a provider can contain. The user consents to each kind separately; the kinds
 * are also the scopes of `Remote1.SetConsent`.
 */
export const dataClasses = ["prompt", "files", "mail", "calendar", "screen", "memory"] as const;

export type DataClass = (typeof dataClasses)[number];

/**
 * The data classes that a request contains, and those that the user allowed for it. A request to a remote model needs
 * the user's consent for each class; requests to local models do not use them.
 */
export interface Egress {
  /** Every class that the request contains. `prompt` is always one of them: text that a person or a program wrote. */
  readonly classes: readonly DataClass[];
  /** Classes that the user allowed for this one request, in addition to the permanently allowed classes. */
  readonly allowedOnce: readonly DataClass[];
  /**
   * True if only `allowedOnce` counts, and the permanently allowed classes do not. A sandboxed app without network
   * access must not reach the network through consent that the user has given permanently.
   */
  readonly isOnceOnly?: true | undefined;
}

/** The data classes of a request that contains nothing but the client's own text. */
export const promptOnly: Egress = { classes: ["prompt"], allowedOnce: [] };
