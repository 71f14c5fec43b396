import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { silentLogger } from "../../../../src/base/logger.ts";
import { CaddyConfigLoader } from "../../../../src/controller/ingress/caddy-config-loader.ts";
import type { CaddyHost } from "../../../../src/controller/ingress/caddy-host.ts";
import { DirectRouteLoads } from "../../../../src/controller/ingress/direct-route-loads.ts";
import { FolderRouteTable } from "../../../../src/controller/ingress/folder-route-table.ts";
import { ingressPaths } from "../../../../src/controller/ingress/ingress-paths.ts";
import { VirtualClock } from "../../../support/virtual-clock.ts";

test("a running Caddy with other settings is replaced, even if it did not answer the first request for its configuration", async () => {
  const dataDir = mkdtempSync(join(tmpdir(), "berth-loader-"));
  const paths = await ingressPaths(dataDir);
  const clock = new VirtualClock();
  const table = new FolderRouteTable({ folder: join(paths.folder, "table"), clock });
  await table.prepare();
  const admin = createServer((_, answer) => answer.end("{}"));
  const starts: string[] = [];
  const host: CaddyHost = {
    mode: "container",
    onExit: () => {},
    version: () => Promise.resolve("2.6.2"),
    isUpToDate: () => Promise.resolve(starts.length > 0),
    isRunning: async () => {
      // Caddy opens its admin socket only after Berth's first request for the configuration has failed.
      if (!admin.listening)
        await new Promise<void>((done) => admin.listen(paths.adminSocket, done));
      return true;
    },
    start: () => {
      starts.push("started");
      return Promise.resolve();
    },
    validate: () => Promise.resolve(undefined),
    assertPortsAvailable: () => Promise.resolve(),
    stop: () => Promise.resolve(),
  };
  try {
    const loader = new CaddyConfigLoader({
      host,
      paths,
      direct: new DirectRouteLoads({
        table,
        file: paths.directRoutesFile,
        findReservedRange: async () => undefined,
      }),
      settings: { httpPort: 8080, httpsPort: undefined, acmeEmail: undefined },
      clock,
      logger: silentLogger,
    });
    await loader.apply([], new AbortController().signal);
    expect(starts).toEqual(["started"]);
  } finally {
    await new Promise((resolve) => admin.close(resolve));
    rmSync(dataDir, { recursive: true });
  }
});
