/**
 * The kinds of data that a request to a provider can contain. The user gives consent for each one; they are the scopes
 * of `Remote1.SetConsent`.
 */
export const dataClasses = ["prompt", "files", "mail", "calendar", "screen", "memory"] as const;

export type DataClass = (typeof dataClasses)[number];

/** The data classes of a request, for consent. Only requests to remote models use it. */
export interface Egress {
  /** Every class that the request contains. It always includes `prompt`: text that a person or a program wrote. */
  readonly classes: readonly DataClass[];
  /** Classes that the user allowed for this one request, in addition to those allowed permanently. */
  readonly allowedOnce: readonly DataClass[];
}

/** For requests that contain nothing but the client's own text. */
export const promptOnly: Egress = { classes: ["prompt"], allowedOnce: [] };
