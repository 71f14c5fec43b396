import { fstatSync } from "node:fs";
import { AssistantError } from "../../src/assistant/assistant-error.ts";
import { KeyDescriptor } from "../../src/assistant/remote/key-descriptor.ts";

/**
 * The descriptor from which this program reads a key. The program prints `read` or an error code, and appends
 * `, and left open` if the descriptor stays open.
 */
const FD = 3;

const code = await new KeyDescriptor(FD).read(new AbortController().signal).then(
  () => "read",
  (error: unknown) => (error instanceof AssistantError ? error.code : String(error)),
);
// Another thread closes the descriptor, so the process waits for that.
const deadline = Date.now() + 2_000;
while (isOpen() && Date.now() < deadline) await new Promise((resolve) => setTimeout(resolve, 5));
process.stdout.write(`${code}${isOpen() ? ", and left open" : ""}`);

function isOpen(): boolean {
  try {
    fstatSync(FD);
    return true;
  } catch {
    return false;
  }
}
