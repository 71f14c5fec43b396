import type { BusValue } from "./port.ts";

export const messageTypes = { call: 1, answer: 2, error: 3, signal: 4 } as const;

/** The flag of a method call whose caller expects no reply. */
export const NO_REPLY_EXPECTED = 1;

/** A message to send. Its type determines which of the fields from `path` to `destination` are required. */
export interface OutgoingMessage {
  readonly type: (typeof messageTypes)[keyof typeof messageTypes];
  readonly flags?: number;
  readonly path?: string | undefined;
  readonly interface?: string | undefined;
  readonly member?: string | undefined;
  readonly errorName?: string | undefined;
  readonly replySerial?: number | undefined;
  /** The bus name of the receiver; undefined for a signal to all subscribers. */
  readonly destination?: string | undefined;
  readonly signature: string;
  readonly args: readonly BusValue[];
}
