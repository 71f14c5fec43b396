import { execFile } from "node:child_process";
import { access, mkdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { findCurrentGo } from "./current-go.ts";

export const NEWER_CADDY = "2.11.2";
const MODULE = "github.com/caddyserver/caddy/v2";

/**
 * Builds a Caddy that is newer than Debian's, with Go. Returns the folder of the program `caddy`. The
 * first build takes minutes, and later runs use its result.
 */
export async function buildNewerCaddy(): Promise<string> {
  const folder = join(tmpdir(), `berth-test-caddy-${NEWER_CADDY}`);
  const isBuilt = await access(join(folder, "caddy")).then(
    () => true,
    () => false,
  );
  if (isBuilt) return folder;
  const go = await findCurrentGo();
  await mkdir(folder, { recursive: true });
  // Caddy does not know its version if it is built from its own module, so a linker flag sets the version.
  const flags = `-X ${MODULE}.CustomVersion=v${NEWER_CADDY}`;
  await promisify(execFile)(
    go,
    ["install", "-ldflags", flags, `${MODULE}/cmd/caddy@v${NEWER_CADDY}`],
    { env: { ...process.env, GOBIN: folder }, maxBuffer: 16 * 1024 * 1024 },
  );
  return folder;
}
