import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";

/** Creates a folder that is removed after the test. `name` tells people who find it which test has left it. */
export function temporaryFolder(name: string): string {
  const folder = mkdtempSync(join(tmpdir(), `berth-${name}-`));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
