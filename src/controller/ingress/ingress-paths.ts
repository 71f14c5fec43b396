import { createHash } from "node:crypto";
import { chmod, lstat, mkdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { BerthError } from "../../base/errors.ts";
import type { IngressPaths } from "./caddy-host.ts";

/**
 * The maximum length of a socket path, in bytes without the terminator. macOS has the shortest limit, 104 bytes with
 * the terminator; Linux has 108.
 */
const SOCKET_PATH_BYTES_MAX = 103;

/** Returns the files of the ingress, in a folder that only this user can access. */
export async function ingressPaths(dataDir: string): Promise<IngressPaths> {
  const folder = join(dataDir, "ingress");
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const adminSocket = await socketPath(folder);
  return {
    folder,
    adminSocket,
    apiSocket: join(dirname(adminSocket), "api.sock"),
    configFile: join(folder, "caddy.json"),
    directRoutesFile: join(folder, "direct-routes.json"),
  };
}

/**
 * Returns the path of a socket in the folder. If that path is too long, returns a short path, which is always the same
 * for this folder.
 */
async function socketPath(folder: string): Promise<string> {
  const usual = join(folder, "admin.sock");
  if (Buffer.byteLength(usual) <= SOCKET_PATH_BYTES_MAX) return usual;
  const name = createHash("sha256").update(folder).digest("hex").slice(0, 16);
  const short = join(tmpdir(), `berth-ingress-${name}`);
  await mkdir(short, { recursive: true, mode: 0o700 });
  const found = await lstat(short);
  // Another user may have created this folder in the shared temporary folder to impersonate Caddy, so its owner is
  // checked.
  if (!found.isDirectory() || found.uid !== (process.getuid?.() ?? found.uid))
    throw new BerthError(
      "internal",
      "the folder of the ingress's admin socket belongs to another user",
      {
        hint: "choose a data directory with a shorter path",
      },
    );
  await chmod(short, 0o700);
  return join(short, "admin.sock");
}
