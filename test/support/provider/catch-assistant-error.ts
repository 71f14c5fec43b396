import { AssistantError } from "../../../src/assistant/assistant-error.ts";

/** Resolves to the AssistantError of a rejected promise; fails for any other result. */
export async function catchAssistantError(waited: Promise<unknown>): Promise<AssistantError> {
  try {
    await waited;
  } catch (error) {
    if (error instanceof AssistantError) return error;
    throw error;
  }
  throw new Error("nothing was refused");
}
