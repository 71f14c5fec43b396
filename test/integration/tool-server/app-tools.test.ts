import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { readToolManifest } from "../../../src/assistant/agent/manifests/parse-manifest.ts";
import {
  BERTH_APPS_ID,
  berthAppsManifest,
  berthToolNames,
} from "../../../src/base/berth-tool-manifest.ts";
import type { AppSpec } from "../../../src/resources/app-spec.ts";
import type { Manifest } from "../../../src/resources/kinds.ts";
import { applyResource } from "../../support/test-store.ts";
import { ToolHarness } from "../../support/tool-harness.ts";

/** An app that writes log lines for which the tests search in the results of tools. */
const noisy = {
  logs: [
    "plain",
    "\u001B[31mred\u001B[0m \u001B]0;title\u0007bell\u0007",
    "to https://ada:hunter2@example.org/x",
    "x".repeat(5_000),
  ],
};

const template: Manifest<"Template"> = {
  apiVersion: "berth.dev/v1",
  kind: "Template",
  metadata: { name: "site" },
  spec: {
    title: "Site",
    description: "A site and its database.",
    category: "web",
    parameters: [{ name: "password", description: "of the database", secret: true, generate: 24 }],
    // oxlint-disable-next-line no-template-curly-in-string -- placeholders of the template
    app: { image: "web:1", port: 80, env: { PASSWORD: "${password}" } },
    companions: [{ suffix: "db", app: { image: "web:2", port: 80 } }],
  },
};

let harness: ToolHarness;

beforeEach(async () => {
  harness = await ToolHarness.open({
    images: {
      "web:1": {},
      "web:2": {},
      "bad:1": { readyAfterMs: Number.POSITIVE_INFINITY, exits: { afterMs: 1, code: 3 } },
      "noisy:1": noisy,
    },
    templates: [template],
  });
});

afterEach(async () => {
  await harness[Symbol.asyncDispose]();
});

const spec: AppSpec = {
  image: "web:1",
  port: 80,
  env: { GREETING: "hi", RATE: 1.5, DB_PASSWORD: "hunter2", TOKEN: { secret: "web-token" } },
  volumes: [{ name: "data", path: "/data" }],
  resources: { cpu: 0.25, memory: "64Mi" },
};

/** Creates an app as a user, and waits until it is ready. */
async function given(name: string, its: AppSpec = { image: "web:1", port: 80 }): Promise<void> {
  harness.controlPlane.apply(name, its);
  await expect.poll(() => harness.controlPlane.isReady(name)).toBe(true);
}

/** Adds the Secret to which the app's spec refers. */
function giveSecret(): void {
  applyResource(harness.controlPlane.store, "Secret", "web-token", {
    data: { token: "s3cr3t-value" },
  });
}

function specOf(name: string): AppSpec | undefined {
  return harness.controlPlane.app(name)?.spec;
}

describe("the manifest of Berth's tools", () => {
  test("is valid, and declares exactly the tools of its server", async () => {
    const { manifest, faults } = readToolManifest(berthAppsManifest, BERTH_APPS_ID);
    expect(faults).toEqual([]);
    expect(manifest?.tools.map(({ name }) => name)).toEqual([...berthToolNames]);
    for (const { name, title, description, inputSchema } of manifest?.tools ?? []) {
      const address = { appId: BERTH_APPS_ID, isActivatable: true };
      const live = await harness.apps.getDefinition(address, name, new AbortController().signal);
      expect(live).toEqual({ title, description, inputSchema });
    }
  });

  test("has an undo for every tool that writes, except the undo tools", () => {
    const without = berthAppsManifest.tools
      .filter((tool) => tool.tier !== "read" && !("undo" in tool))
      .map(({ name }) => name);
    expect(without).toEqual(["set_app_running", "restore_app"]);
  });
});

describe("a tool that only reads", () => {
  test("lists apps", async () => {
    expect(await harness.callExpectingSuccess("list_apps")).toEqual({ apps: [], total: 0 });
    await given("web");
    await given("other");
    expect(await harness.callExpectingSuccess("list_apps")).toMatchObject({
      apps: [
        { name: "other", status: "running", ready: true, image: "web:1", port: 80 },
        { name: "web" },
      ],
      total: 2,
    });
  });

  test("describes an app, without its passwords", async () => {
    giveSecret();
    await given("web", spec);
    const told = await harness.callExpectingSuccess("describe_app", { name: "web" });
    expect(told).toMatchObject({
      name: "web",
      ready: true,
      spec: {
        image: "web:1",
        env: {
          GREETING: "hi",
          DB_PASSWORD: "(hidden: 7 characters)",
          TOKEN: { secret: "web-token" },
        },
      },
      containers: [{ state: "running" }],
      revisions: [{ number: 1, current: true, image: "web:1" }],
    });
    expect(JSON.stringify(await harness.call("describe_app", { name: "web" }))).not.toMatch(
      /hunter2|s3cr3t/,
    );
  });

  test("reads the newest lines of a log, limited in number and as plain text", async () => {
    await given("web", { image: "noisy:1", port: 80 });
    const { lines } = await harness.callExpectingSuccess("app_logs", { name: "web" });
    expect(lines).toMatchObject([
      { message: "plain" },
      { message: "red bell" },
      { message: "to https://(hidden)@example.org/x" },
      { message: `${"x".repeat(2_000)}…` },
    ]);
    expect(await harness.callExpectingSuccess("app_logs", { name: "web", lines: 1 })).toMatchObject(
      {
        lines: [{ message: expect.stringMatching(/^x/) }],
        left_out: 0,
      },
    );
  });

  test("reports an app that does not exist", async () => {
    for (const tool of ["describe_app", "app_logs", "start_app", "delete_app", "rollback_app"])
      expect(await harness.callExpectingError(tool, { name: "nope" })).toContain(
        'there is no app \\"nope\\"',
      );
  });
});

describe("the undo of a Berth tool", () => {
  test("deletes the app that deploy_app created", async () => {
    const args = { name: "web", image: "web:1", port: 80, env: { A: "b" } };
    const result = await harness.callExpectingSuccess("deploy_app", args);
    expect(result).toMatchObject({ created: true, ready: true, state: "ready" });
    expect(specOf("web")).toEqual({ image: "web:1", port: 80, env: { A: "b" } });
    expect(await harness.undo("deploy_app", args, result)).toMatchObject({ deleted: true });
    expect(harness.controlPlane.app("web")).toBeUndefined();
    // A second undo, as after a lost answer, has nothing left to do.
    expect(await harness.undo("deploy_app", args, result)).toMatchObject({ deleted: true });
  });

  test("deletes the app that deploy_app created from a template, with all its resources", async () => {
    const args = { name: "shop", template: "site" };
    const result = await harness.callExpectingSuccess("deploy_app", args);
    const { store } = harness.controlPlane;
    expect(store.list("App").map(({ metadata }) => metadata.name)).toEqual(["shop", "shop-db"]);
    expect(store.list("Secret")).toHaveLength(1);
    await harness.undo("deploy_app", args, result);
    expect(store.list("Secret")).toEqual([]);
    await expect.poll(() => store.list("App")).toEqual([]);
  });

  test("restores the previous image", async () => {
    giveSecret();
    await given("web", spec);
    const before = specOf("web");
    const args = { name: "web", image: "web:2" };
    const result = await harness.callExpectingSuccess("deploy_app", args);
    expect(result).toMatchObject({ created: false, changed: true, ready: true });
    expect(specOf("web")).toEqual({ ...before, image: "web:2" });
    expect(await harness.undo("deploy_app", args, result)).toMatchObject({ ready: true });
    expect(specOf("web")).toEqual(before);
    const images = harness.controlPlane
      .listContainers("web")
      .map((container) => container.spec.image);
    expect(images).toEqual(["web:1"]);
  });

  test("keeps later changes of other users", async () => {
    await given("web");
    const args = { name: "web", image: "web:2" };
    const result = await harness.callExpectingSuccess("deploy_app", args);
    harness.controlPlane.apply("web", { image: "web:2", port: 80, env: { SINCE: "then" } });
    await harness.undo("deploy_app", args, result);
    expect(specOf("web")).toEqual({ image: "web:1", port: 80, env: { SINCE: "then" } });
  });

  test("restores a repository source at its commit after an image was deployed", async () => {
    const source = { git: { url: "https://git.example.org/web.git", ref: "main" } };
    await given("web", { source, port: 80 });
    const before = specOf("web");
    const args = { name: "web", image: "web:2" };
    const result = await harness.callExpectingSuccess("deploy_app", args);
    expect(specOf("web")).toEqual({ image: "web:2", port: 80 });
    harness.controlPlane.builds.head = "commit2";
    expect(await harness.undo("deploy_app", args, result)).toMatchObject({ held_at_revision: 1 });
    expect(specOf("web")).toEqual(before);
    const images = harness.controlPlane
      .listContainers("web")
      .map((container) => container.spec.image);
    expect(images).toEqual([harness.controlPlane.builds.getImage("web", "commit1")]);
  });

  test("restores the previous commit of a repository", async () => {
    const git = { url: "https://git.example.org/web.git" };
    const args = { name: "web", git };
    await harness.callExpectingSuccess("deploy_app", { ...args, port: 80 });
    harness.controlPlane.builds.head = "commit2";
    const result = await harness.callExpectingSuccess("deploy_app", { name: "web" });
    const imageOf = () =>
      harness.controlPlane.listContainers("web").map(({ spec: its }) => its.image);
    expect(imageOf()).toEqual([harness.controlPlane.builds.getImage("web", "commit2")]);
    expect(specOf("web")).toEqual({ source: { git }, port: 80 });
    await harness.undo("deploy_app", { name: "web" }, result);
    expect(imageOf()).toEqual([harness.controlPlane.builds.getImage("web", "commit1")]);
    expect(specOf("web")).toEqual({ source: { git }, port: 80 });
  });

  test("undoes a deploy that failed, and reports the failure as a result, not as an error", async () => {
    await given("web", { image: "web:1", port: 80, rollout: { autoRevert: false } });
    const before = specOf("web");
    const args = { name: "web", image: "bad:1" };
    const result = await harness.callExpectingSuccess("deploy_app", args);
    expect(result).toMatchObject({ ready: false, state: "failed" });
    expect(result["message"]).toMatch(/code 3|exit/i);
    expect(await harness.undo("deploy_app", args, result)).toMatchObject({ ready: true });
    expect(specOf("web")).toEqual(before);
  });

  test("undoes a deploy that is not ready yet", async () => {
    await given("web");
    await harness.restart(1);
    harness.controlPlane.engine.setImage("slow:1", { readyAfterMs: Number.POSITIVE_INFINITY });
    const args = { name: "web", image: "slow:1" };
    const result = await harness.callExpectingSuccess("deploy_app", args);
    expect(result).toMatchObject({ ready: false, state: "waiting" });
    await harness.undo("deploy_app", args, result);
    expect(specOf("web")).toEqual({ image: "web:1", port: 80 });
  });

  test("undoes a rollback", async () => {
    await given("web");
    await harness.callExpectingSuccess("deploy_app", { name: "web", image: "web:2" });
    await given("web", { image: "web:2", port: 80, env: { A: "b" } });
    const before = specOf("web");
    const args = { name: "web", revision: 1 };
    const result = await harness.callExpectingSuccess("rollback_app", args);
    expect(result).toMatchObject({ from_revision: 3, ready: true });
    expect(specOf("web")).toEqual({ image: "web:1", port: 80 });
    await harness.undo("rollback_app", args, result);
    expect(specOf("web")).toEqual(before);
  });

  test("undoes starts, stops and restarts", async () => {
    await given("web", { image: "web:1", port: 80 });
    const args = { name: "web" };
    for (const [tool, isRunning, changed] of [
      ["stop_app", true, true],
      ["stop_app", false, false],
      ["start_app", false, true],
      ["start_app", true, false],
      ["restart_app", true, true],
    ] as const) {
      await harness.callExpectingSuccess("set_app_running", { name: "web", running: isRunning });
      const before = specOf("web");
      const result = await harness.callExpectingSuccess(tool, args);
      expect([tool, result]).toMatchObject([
        tool,
        { was_running: isRunning, changed, ready: true },
      ]);
      expect(specOf("web")?.running ?? true).toBe(tool !== "stop_app");
      await harness.undo(tool, args, result);
      // The value `running: true` has the same meaning as a missing field.
      expect({ running: true, ...specOf("web") }).toEqual({ running: true, ...before });
      const states = harness.controlPlane.listContainers("web").map(({ state }) => state);
      expect([tool, states.includes("running")]).toEqual([tool, isRunning]);
    }
  });

  test("refuses to restart a stopped app", async () => {
    await given("web");
    await harness.callExpectingSuccess("stop_app", { name: "web" });
    expect(await harness.callExpectingError("restart_app", { name: "web" })).toContain(
      "is stopped",
    );
  });

  test("creates a deleted app again, with its volumes", async () => {
    giveSecret();
    await given("web", spec);
    const { store, engine } = harness.controlPlane;
    applyResource(store, "App", "web", {}, { mode: "merge", labels: { team: "a" } });
    const volumes = [...engine.volumes.keys()];
    expect(volumes).toHaveLength(1);
    const before = specOf("web");
    const result = await harness.callExpectingSuccess("delete_app", { name: "web" });
    expect(result).toMatchObject({ deleted: true, volumes_kept: ["data"] });
    expect(harness.controlPlane.app("web")).toBeUndefined();
    expect(await harness.undo("delete_app", { name: "web" }, result)).toMatchObject({
      ready: true,
    });
    expect(specOf("web")).toEqual(before);
    expect(harness.controlPlane.app("web")?.metadata.labels).toEqual({ team: "a" });
    expect([...engine.volumes.keys()]).toEqual(volumes);
    // A second undo succeeds without a change, because the app exists already.
    await harness.undo("delete_app", { name: "web" }, result);
  });

  test("reports a deletion that cannot be undone", async () => {
    harness.controlPlane.apply("web", { source: { archive: "a".repeat(64) }, port: 80 });
    const result = await harness.callExpectingSuccess("delete_app", { name: "web" });
    expect(result["not_undoable"]).toContain("archive");
    expect(harness.compensation("delete_app", { name: "web" }, result)).toBe(
      "the call has no $result.undo_id",
    );
  });

  test("undoes a call after a crash of the tool server", async () => {
    await given("web");
    const args = { name: "web", image: "web:2" };
    const result = await harness.callExpectingSuccess("deploy_app", args);
    await harness.restart();
    await harness.undo("deploy_app", args, result);
    expect(specOf("web")).toEqual({ image: "web:1", port: 80 });
  });
});

describe("undo of a call whose app was deleted and restored meanwhile", () => {
  test("deletes an app that the call created", async () => {
    const made = await harness.callExpectingSuccess("deploy_app", {
      name: "web",
      image: "web:1",
      port: 80,
    });
    const changed = await harness.callExpectingSuccess("deploy_app", {
      name: "web",
      image: "web:2",
    });
    const deleted = await harness.callExpectingSuccess("delete_app", { name: "web" });
    await harness.undo("delete_app", { name: "web" }, deleted);
    expect(specOf("web")?.image).toBe("web:2");
    // Both deploys can still be undone after the app was deleted and restored a second time.
    const again = await harness.callExpectingSuccess("delete_app", { name: "web" });
    await harness.undo("delete_app", { name: "web" }, again);
    await harness.undo("deploy_app", { name: "web" }, changed);
    expect(specOf("web")?.image).toBe("web:1");
    await harness.undo("deploy_app", { name: "web" }, made);
    expect(harness.controlPlane.app("web")).toBeUndefined();
  });

  test("refuses to delete an app with an equal spec that another user has created", async () => {
    const made = await harness.callExpectingSuccess("deploy_app", {
      name: "web",
      image: "web:1",
      port: 80,
    });
    const deleted = await harness.callExpectingSuccess("delete_app", { name: "web" });
    await given("web");
    await harness.undo("delete_app", { name: "web" }, deleted);
    const { undo_id } = made;
    expect(await harness.callExpectingError("restore_app", { name: "web", undo_id })).toContain(
      "was replaced by another app",
    );
    expect(specOf("web")).toEqual({ image: "web:1", port: 80 });
  });
});

describe("restore_app refuses", () => {
  test("an undo id of another app or another server, and an unknown undo id", async () => {
    await given("web");
    const { undo_id } = await harness.callExpectingSuccess("deploy_app", {
      name: "web",
      image: "web:2",
    });
    expect(await harness.callExpectingError("restore_app", { name: "other", undo_id })).toContain(
      'about the app \\"web\\"',
    );
    expect(
      await harness.callExpectingError("restore_app", { name: "web", undo_id: "0".repeat(32) }),
    ).toContain("no undo record");
    const { port } = new URL(harness.target.url);
    harness.target = { ...harness.target, url: `http://localhost:${port}` };
    expect(await harness.callExpectingError("restore_app", { name: "web", undo_id })).toContain(
      "another server",
    );
    expect(specOf("web")?.image).toBe("web:2");
  });

  test("an app of the same name that was created later", async () => {
    const made = await harness.callExpectingSuccess("deploy_app", { name: "web", image: "web:1" });
    const changed = await harness.callExpectingSuccess("deploy_app", {
      name: "web",
      image: "web:2",
    });
    const deleted = await harness.callExpectingSuccess("delete_app", { name: "web" });
    await given("web", { image: "web:1", port: 81 });
    for (const { undo_id } of [made, changed, deleted])
      expect(await harness.callExpectingError("restore_app", { name: "web", undo_id })).toContain(
        "was replaced by another app",
      );
    expect(specOf("web")).toEqual({ image: "web:1", port: 81 });
  });

  test("a deleted app", async () => {
    await given("web");
    const { undo_id } = await harness.callExpectingSuccess("deploy_app", {
      name: "web",
      image: "web:2",
    });
    await harness.callExpectingSuccess("delete_app", { name: "web" });
    expect(await harness.callExpectingError("restore_app", { name: "web", undo_id })).toContain(
      "deleted",
    );
  });
});

describe("refused calls of Berth's tools change nothing", () => {
  const refused = [
    ["deploy_app", { name: "new" }, "give image, git or template"],
    ["deploy_app", { name: "web", image: "a", git: { url: "https://a" } }, "set only one of"],
    ["deploy_app", { name: "web", template: "site" }, "already exists"],
    ["deploy_app", { name: "web", image: "web:2", port: 81 }, "omit port"],
    ["deploy_app", { name: "new", template: "site", env: { A: "b" } }, "omit env"],
    ["deploy_app", { name: "new", template: "sites" }, 'Did you mean \\"site\\"'],
    ["deploy_app", { name: "Web!", image: "a" }, "must match pattern"],
    ["deploy_app", { name: "web", volumes: [] }, 'additional properties: \\"volumes\\"'],
    ["deploy_app", {}, "must have required property 'name'"],
    ["rollback_app", { name: "web", revision: 7 }, "has no revision 7"],
    ["rollback_app", { name: "web" }, "no earlier stable revision"],
    ["app_logs", { name: "web", lines: 10_000 }, "must be <= 500"],
    [
      "app_logs",
      { name: "web", since: "yesterday" },
      "expected a duration back from now (10m), an RFC 3339 time",
    ],
    ["set_app_running", { name: "web", running: "yes" }, "must be boolean"],
    ["drop_everything", {}, "no tool"],
  ] as const;

  test("with invalid arguments", async () => {
    await given("web");
    const before = [specOf("web"), harness.controlPlane.store.list("App").length];
    for (const [tool, args, message] of refused)
      expect([tool, args, await harness.callExpectingError(tool, args)]).toEqual([
        tool,
        args,
        expect.stringContaining(message),
      ]);
    expect([specOf("web"), harness.controlPlane.store.list("App").length]).toEqual(before);
  });

  test("for an app of the specs folder", async () => {
    harness.controlPlane.store.apply({
      kind: "App",
      name: "web",
      manager: "file:web.yaml",
      actor: { name: "test" },
      mode: "replace",
      spec: { image: "web:1", port: 80 },
      declares: true,
    });
    const deploy = await harness.callExpectingError("deploy_app", { name: "web", image: "web:2" });
    expect(deploy).toContain("web.yaml");
    expect(await harness.callExpectingError("delete_app", { name: "web" })).toContain("web.yaml");
    expect(specOf("web")).toEqual({ image: "web:1", port: 80 });
  });
});
