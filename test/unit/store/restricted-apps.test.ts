import { expect, it, onTestFinished } from "vitest";
import { emptyReconcileState } from "../../../src/resources/app-status.ts";
import type { SpecOf } from "../../../src/resources/kinds.ts";
import { RestrictedApps } from "../../../src/store/restricted-apps.ts";
import { appStatus } from "../../support/api-harness.ts";
import { openTestStore } from "../../support/test-store.ts";

it("RestrictedApps finds an app whose serving version alone mounts a folder and uses a Secret, and reads no revision of other apps", () => {
  const { store, ...test } = openTestStore();
  onTestFinished(() => test[Symbol.asyncDispose]());
  const env = { PASSWORD: { secret: "shared" } };
  const volumes = [{ hostPath: "/etc", path: "/host" }];
  const createApp = (name: string, served: SpecOf["App"]) => {
    const spec = { image: "bb:2", env };
    const actor = { name: "admin", scope: "admin" } as const;
    const { resource } = store.apply({
      kind: "App",
      name,
      manager: "api",
      actor,
      mode: "merge",
      declares: false,
      spec,
    });
    const { number } = store.revisions.ensure({
      app: name,
      generation: 1,
      specHash: "a",
      spec: served,
      image: "bb:1",
      imageId: null,
    });
    const servedRevisions = [{ version: "a", number }];
    const memory = { ...emptyReconcileState, servedRevisions };
    store.setStatus("App", name, resource.metadata.uid, appStatus(1, { memory }));
  };
  createApp("other", { image: "bb:1", env });
  createApp("reach", { image: "bb:1", env, volumes });

  const read: string[] = [];
  const apps = new RestrictedApps({
    hostPaths: { isAllowed: () => false },
    listApps: () => store.list("App"),
    revisions: {
      get: (app, number) => {
        read.push(app);
        return store.revisions.get(app, number);
      },
      list: (app) => store.revisions.list(app),
      listAppsWithHostPaths: () => store.revisions.listAppsWithHostPaths(),
    },
    baseDomain: "localhost",
  });

  expect(apps.findSecretHolder(["unused", "shared"], undefined)).toMatchObject({
    secret: "shared",
    app: "reach",
    mount: { path: "/etc" },
  });
  expect(read).toEqual(["reach"]);
  expect(apps.findSecretHolder(["shared"], "reach")).toBeUndefined();
  expect([...apps.listWritablePaths()]).toEqual(["/etc"]);
});
