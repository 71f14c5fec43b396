import { realpathSync } from "node:fs";
import { hasImage, importImage, RootFs } from "../../scripts/base-image.mjs";
import { which } from "../../scripts/engine.mjs";

/** The name of an image that contains the Caddy binary of this machine. */
export const CADDY = "berth.test/caddy:1";

export async function ensureCaddyImage(host: string): Promise<void> {
  if (await hasImage(host, CADDY)) return;
  const program = which("caddy");
  if (!program) throw new Error("the tests need caddy: apt-get install caddy");
  const fs = new RootFs()
    .program(realpathSync(program), "usr/bin/caddy")
    .file("etc/passwd", "root:x:0:0:root:/:/bin/sh\n")
    .folder("tmp", 0o1777);
  await importImage(host, CADDY, fs, [`CMD ["/usr/bin/caddy", "run"]`, "ENV PATH=/usr/bin"]);
}
