import { type Static, Type } from "typebox";
import { LazyValidator } from "./json-validator.ts";

/** What a daemon tells the program that started it and looks after it. */
const ParentMessage = Type.Union([
  /** It answers there from now on. */
  Type.Object({ type: Type.Literal("ready"), url: Type.String() }),
  /** It ends, for a reason that a person can do something about. */
  Type.Object({
    type: Type.Literal("failed"),
    message: Type.String(),
    hint: Type.Union([Type.String(), Type.Null()]),
  }),
]);
export type ParentMessage = Static<typeof ParentMessage>;

export const parentMessageValidator = new LazyValidator<ParentMessage>(ParentMessage);

/** Resolves when it is on its way; where the parent has gone, nobody has to know. */
export function sendToParent(message: ParentMessage): Promise<void> {
  return new Promise((resolve) => {
    if (!process.send || !process.connected) {
      resolve();
      return;
    }
    process.send(message, undefined, undefined, () => resolve());
  });
}
