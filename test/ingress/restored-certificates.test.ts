import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "node:tls";
import { expect, it, onTestFinished } from "vitest";
import { restoreStore } from "../../src/store/restore.ts";
import { startBackend } from "../support/backend.ts";
import { CaddyHarness } from "../support/caddy-harness.ts";

const HOST = "hello.localhost";

/**
 * Returns the fingerprints of the certificate that the ingress presents for HOST, and of the authority that signed
 * it.
 */
function readFingerprints(port: number): Promise<readonly string[]> {
  return new Promise((resolve, reject) => {
    const socket = connect(
      { host: "127.0.0.1", port, servername: HOST, rejectUnauthorized: false },
      () => {
        const { fingerprint256, issuerCertificate } = socket.getPeerCertificate(true);
        resolve([fingerprint256, issuerCertificate.fingerprint256]);
        socket.destroy();
      },
    );
    socket.once("error", reject);
  });
}

async function serve(harness: CaddyHarness, target: string): Promise<void> {
  await harness.waitUntilReady();
  await harness.waitForVerdict("hello");
  await harness.ingress.table.write("hello", { version: "v1", targets: [target] });
}

it("a restored backup serves on another machine with the saved certificates", async () => {
  await using backend = await startBackend("one");
  const folder = mkdtempSync(join(tmpdir(), "berth-restored-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, "a.backup");
  let before: readonly string[];
  {
    await using first = await CaddyHarness.open({ https: true });
    first.apply("hello");
    await serve(first, backend.target);
    before = await readFingerprints(first.httpsPort ?? 0);
    await first.store.backup(file);
  }
  const dataDir = join(folder, "data");
  const { manifest } = restoreStore({ dataDir, file });
  expect(manifest?.contains.certificates).toEqual([HOST]);
  await using second = await CaddyHarness.open({ https: true, dataDir });
  await serve(second, backend.target);
  expect(await readFingerprints(second.httpsPort ?? 0)).toEqual(before);
});
