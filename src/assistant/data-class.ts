/**
 * What a text that leaves the machine can hold, as consent is given for it: the scopes of
 * `Remote1.SetConsent`. A request carries the set of those that are in it.
 */
export const dataClasses = ["prompt", "files", "mail", "calendar", "screen", "memory"] as const;

export type DataClass = (typeof dataClasses)[number];

/** What of a request matters once it is to leave the machine; without meaning for a model that is here. */
export interface Egress {
  /** Everything that is in the request. `prompt`, what a person or a program has written, is always. */
  readonly classes: readonly DataClass[];
  /** What a person has just allowed for this one request, beside what is allowed for good. */
  readonly allowedOnce: readonly DataClass[];
}

/** Of a request that says nothing of itself: a client's own words. */
export const promptOnly: Egress = { classes: ["prompt"], allowedOnce: [] };
