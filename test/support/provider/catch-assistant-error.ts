import { AssistantError } from "../../../src/assistant/assistant-error.ts";

/** The AssistantError that it rejects with; fails where it does not, or with something else. */
export async function catchAssistantError(waited: Promise<unknown>): Promise<AssistantError> {
  try {
    await waited;
  } catch (error) {
    if (error instanceof AssistantError) return error;
    throw error;
  }
  throw new Error("nothing was refused");
}
