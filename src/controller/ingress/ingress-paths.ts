import { createHash } from "node:crypto";
import { chmod, lstat, mkdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { BerthError } from "../../base/errors.ts";
import type { IngressPaths } from "./caddy-host.ts";

/** `sun_path` of Linux holds 108 bytes with its end mark; macOS, the shortest, 104. */
const SOCKET_PATH_BYTES_MAX = 103;

/** The files of the ingress, in a folder for this user only. */
export async function ingressPaths(dataDir: string): Promise<IngressPaths> {
  const folder = join(dataDir, "ingress");
  await mkdir(folder, { recursive: true, mode: 0o700 });
  return {
    folder,
    adminSocket: await socketPath(folder),
    configFile: join(folder, "caddy.json"),
  };
}

/** In the folder; where its path is too long for a socket, under a short one that stays the same. */
async function socketPath(folder: string): Promise<string> {
  const usual = join(folder, "admin.sock");
  if (Buffer.byteLength(usual) <= SOCKET_PATH_BYTES_MAX) return usual;
  const name = createHash("sha256").update(folder).digest("hex").slice(0, 16);
  const short = join(tmpdir(), `berth-ingress-${name}`);
  await mkdir(short, { recursive: true, mode: 0o700 });
  const found = await lstat(short);
  // Anybody may have made it in a folder that all share: whoever owns it could answer for Caddy.
  if (!found.isDirectory() || found.uid !== (process.getuid?.() ?? found.uid))
    throw new BerthError(
      "internal",
      "the folder for the ingress's admin socket is somebody else's",
      {
        hint: "choose a data directory with a shorter path",
      },
    );
  await chmod(short, 0o700);
  return join(short, "admin.sock");
}
