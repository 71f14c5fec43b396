import { fstatSync } from "node:fs";
import { AssistantError } from "../../src/assistant/assistant-error.ts";
import { KeyDescriptor } from "../../src/assistant/remote/key-descriptor.ts";

/**
 * The descriptor from which this program reads a key. The program prints `read` or an error code, and appends
 * `, and left open` if the descriptor stays open.
 */
const FD = 3;

const before = identify();
const code = await new KeyDescriptor(FD).read(new AbortController().signal).then(
  () => "read",
  (error: unknown) => (error instanceof AssistantError ? error.code : String(error)),
);
// Another thread closes the descriptor, so this process waits until it is closed. By then, the number of the descriptor
// may belong to another file.
const deadline = Date.now() + 30_000;
while (identify() === before && Date.now() < deadline)
  await new Promise((resolve) => setTimeout(resolve, 5));
process.stdout.write(`${code}${identify() === before ? ", and left open" : ""}`);

/** Returns the device and the inode of the descriptor's file; undefined if the descriptor is closed. */
function identify(): string | undefined {
  try {
    const { dev, ino } = fstatSync(FD);
    return `${dev} ${ino}`;
  } catch {
    return undefined;
  }
}
