import { type Static, Type } from "typebox";
import { LazyValidator } from "./json-validator.ts";

/** Messages that a daemon sends to the supervisor that started it. */
const ParentMessage = Type.Union([
  /** The daemon is ready and accepts requests at this URL. */
  Type.Object({ type: Type.Literal("ready"), url: Type.String() }),
  /** The daemon exits because of a problem that the user can fix. The supervisor reports the message and the hint. */
  Type.Object({
    type: Type.Literal("failed"),
    message: Type.String(),
    hint: Type.Union([Type.String(), Type.Null()]),
  }),
]);
export type ParentMessage = Static<typeof ParentMessage>;

export const parentMessageValidator = new LazyValidator<ParentMessage>(ParentMessage);

/**
 * Sends a message to the parent process. Resolves when it has been sent, or when the parent has exited and no process
 * can receive it.
 */
export function sendToParent(message: ParentMessage): Promise<void> {
  return new Promise((resolve) => {
    if (!process.send || !process.connected) {
      resolve();
      return;
    }
    process.send(message, undefined, undefined, () => resolve());
  });
}
