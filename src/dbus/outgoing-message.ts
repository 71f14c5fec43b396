import type { BusValue } from "./port.ts";

export const messageTypes = { call: 1, answer: 2, error: 3, signal: 4 } as const;

/** A flag of a call: its caller takes no answer, nor an error. */
export const NO_REPLY_EXPECTED = 1;

/** A message to send; which of the names it needs goes by its type. */
export interface OutgoingMessage {
  readonly type: (typeof messageTypes)[keyof typeof messageTypes];
  readonly flags?: number;
  readonly path?: string | undefined;
  readonly interface?: string | undefined;
  readonly member?: string | undefined;
  readonly errorName?: string | undefined;
  readonly replySerial?: number | undefined;
  /** Undefined: whoever listens. */
  readonly destination?: string | undefined;
  readonly signature: string;
  readonly args: readonly BusValue[];
}
