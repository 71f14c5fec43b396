import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Registry } from "prom-client";
import { afterAll, beforeAll, expect, test } from "vitest";
import { busyboxRoot, importImage } from "../../scripts/base-image.mjs";
import { systemClock } from "../../src/base/clock.ts";
import { silentLogger } from "../../src/base/logger.ts";
import { loadCatalog } from "../../src/controller/catalogs/catalog.ts";
import { ControllerManager } from "../../src/controller/controller-manager.ts";
import { noIngress } from "../../src/controller/ingress/no-ingress.ts";
import { INSTANCE } from "../../src/controller/labels.ts";
import { EngineLease } from "../../src/controller/lease/engine-lease.ts";
import { withLease } from "../../src/controller/lease/leased-runtime.ts";
import { noArchive } from "../../src/controller/logs/log-archive.ts";
import { createControllerMetrics } from "../../src/controller/metrics/controller-metrics.ts";
import { DockerRuntime } from "../../src/controller/runtime/docker-runtime.ts";
import { findCondition } from "../../src/resources/app-status.ts";
import { renderTemplate } from "../../src/resources/template-render.ts";
import { openStore } from "../../src/store/sqlite-store.ts";
import type { Store } from "../../src/store/store.ts";
import { dockerClient, dockerHost, testLabels } from "../support/engine.ts";
import { sweep, trackInstance } from "../support/engine-runs.ts";
import { noBuilds } from "../support/no-builds.ts";
import { noModels } from "../support/no-models.ts";

/**
 * Substitutes for the images of two templates of the catalog, which the test renders without changes. The real
 * images are not available here, so images of this machine replace them under the same names, with the same ports,
 * paths, variables and data folders.
 */
const standIns: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "traefik/whoami:v1.11": {
    "bin/serve": `#!/bin/sh
mkdir -p /www && echo "Name: $WHOAMI_NAME" > /www/index.html && echo ok > /www/health
exec httpd -f -p 80 -h /www
`,
  },
  // The substitute for the database stores the password in a new volume, and keeps the password of an existing volume.
  "postgres:17": {
    "bin/serve": `#!/bin/sh
cd /var/lib/postgresql/data && mkdir -p served
[ -f served/password ] || echo "$POSTGRES_USER $POSTGRES_DB $POSTGRES_PASSWORD" > served/password
exec httpd -f -p 5432 -h served
`,
    "bin/pg_isready": `#!/bin/sh
[ "$*" = "--host=127.0.0.1 --username=miniflux --dbname=miniflux" ] || exit 3
exec wget -q -O /dev/null http://127.0.0.1:5432/password
`,
  },
  // The substitute for Miniflux listens only after it has logged in to the database of DATABASE_URL.
  "miniflux/miniflux:2.2.19": {
    "bin/serve": `#!/bin/sh
rest=\${DATABASE_URL#postgres://}; user=\${rest%%:*}; rest=\${rest#*:}
password=\${rest%%@*}; rest=\${rest#*@}; host=\${rest%%/*}; rest=\${rest#*/}; database=\${rest%%\\?*}
mkdir -p /www
[ "$(wget -q -O - "http://$host:5432/password")" = "$user $database $password" ] || exit 1
echo "feeds of $ADMIN_USERNAME, from $host" > /www/index.html && echo OK > /www/healthcheck
exec httpd -f -p 8080 -h /www
`,
  },
};

const { templates: catalog } = loadCatalog(join(import.meta.dirname, "../../templates"));
const label = Object.entries(testLabels()).map(([key, value]) => `${key}=${value}`);

beforeAll(async () => {
  for (const [reference, files] of Object.entries(standIns)) {
    await refuseToReplace(reference);
    const root = busyboxRoot();
    if (!root) throw new Error("the stand-ins are made of busybox: apt-get install busybox-static");
    for (const [name, content] of Object.entries(files)) root.file(name, content, 0o755);
    await importImage(dockerHost(), reference, root, [`CMD ["/bin/serve"]`, `LABEL ${label[0]}`]);
  }
});

afterAll(async () => {
  for (const reference of Object.keys(standIns)) {
    await dockerClient().getImage(reference).remove({ force: true });
  }
});

test("two replicas of the template whoami answer with the app's name", async () => {
  await using berth = await startBerth();
  berth.create("whoami", "who", { replicas: 2 });
  await berth.ready("who");
  const { containers, url } = berth.status("who");
  expect(containers).toHaveLength(2);
  expect(await (await fetch(String(url))).text()).toBe("Name: who\n");
});

test("the template miniflux starts after its database, and logs in to it with the generated password", async () => {
  await using berth = await startBerth();
  berth.create("miniflux", "news", {});
  await berth.ready("news");
  expect(await (await fetch(String(berth.status("news").url))).text()).toBe(
    "feeds of admin, from news-db\n",
  );
  const started = (name: string) => Date.parse(berth.status(name).containers[0]?.startedAt ?? "");
  expect(started("news-db")).toBeLessThan(started("news"));

  const { value = "" } = berth.store.secrets.reveal("news-database-password") ?? {};
  expect(value).toHaveLength(24);
  const shown = [
    berth.store.list("App"),
    berth.store.list("Secret"),
    berth.store.audit.list({ limit: 100 }),
  ];
  expect(JSON.stringify(shown)).not.toContain(value);
});

/** Starts a store and reconcilers on the tests' engine, as the program does, but without its APIs. */
async function startBerth() {
  const dataDir = mkdtempSync(join(tmpdir(), "berth-templates-"));
  const store = openStore({ dataDir, clock: systemClock });
  await trackInstance(store.instanceId);
  const runtime = new DockerRuntime({ host: dockerHost(), clock: systemClock });
  const lease = new EngineLease({
    runtime,
    clock: systemClock,
    logger: silentLogger,
    instance: store.instanceId,
    holderId: store.holderId,
    host: "test-host",
    dataDir,
  });
  const manager = new ControllerManager({
    models: noModels(store),
    store,
    runtime: withLease(runtime, lease),
    lease,
    clock: systemClock,
    logger: silentLogger,
    archive: noArchive,
    builds: noBuilds,
    ingress: noIngress,
    baseDomain: "localhost",
    deleteFolder: async () => {},
    metrics: createControllerMetrics(new Registry()),
    random: Math.random,
  });
  manager.start();
  const status = (name: string) => {
    const found = store.get("App", name)?.status;
    if (!found) throw new Error(`app ${name} has no status`);
    return found;
  };
  return {
    store,
    status,
    create: (template: string, name: string, parameters: Record<string, unknown>) =>
      createFrom(store, template, name, parameters),
    ready: (name: string) => waitUntilAppReady(store, name),
    async [Symbol.asyncDispose]() {
      await manager[Symbol.asyncDispose]();
      await runtime[Symbol.asyncDispose]();
      // The container is removed first: removing an image that a container uses would only remove the image's tag.
      await sweep(dockerClient(), `${INSTANCE}=${store.instanceId}`);
      await store[Symbol.asyncDispose]();
      rmSync(dataDir, { recursive: true });
    },
  };
}

function createFrom(
  store: Store,
  template: string,
  name: string,
  parameters: Record<string, unknown>,
): void {
  const entry = catalog.find(({ metadata }) => metadata.name === template);
  if (!entry) throw new Error(`no template ${template}`);
  for (const { kind, metadata, spec } of renderTemplate(entry.spec, { name, parameters })
    .manifests) {
    store.apply({
      kind,
      name: metadata.name,
      manager: "api",
      actor: { name: "test", scope: "admin" },
      mode: "replace",
      createOnly: true,
      spec,
    });
  }
}

function waitUntilAppReady(store: Store, name: string): Promise<void> {
  const ready = () => findCondition(store.get("App", name)?.status?.conditions ?? [], "Ready");
  return new Promise((resolve, reject) => {
    const late = setTimeout(() => {
      stop();
      reject(new Error(`${name} is not Ready after 60 s: ${JSON.stringify(ready())}`));
    }, 60_000);
    const look = () => {
      if (ready()?.status !== "True") return;
      clearTimeout(late);
      stop();
      resolve();
    };
    const stop = store.watch(look);
    look();
  });
}

/**
 * Throws if the engine has an image of this name that is not one of the tests', because the test would overwrite it.
 */
async function refuseToReplace(reference: string): Promise<void> {
  const image = await dockerClient()
    .getImage(reference)
    .inspect()
    .catch(() => undefined);
  const owner = image?.Config.Labels?.[Object.keys(testLabels())[0] ?? ""];
  if (image && owner === undefined) {
    throw new Error(
      `the tests' engine holds the real ${reference}: give the tests an engine of their own`,
    );
  }
}
