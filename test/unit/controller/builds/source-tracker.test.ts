import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { BerthError } from "../../../../src/base/errors.ts";
import { silentLogger } from "../../../../src/base/logger.ts";
import { TaskGroup } from "../../../../src/base/task-group.ts";
import { SourceTracker } from "../../../../src/controller/builds/source-tracker.ts";
import type { GitSource } from "../../../../src/resources/app-source-spec.ts";
import type { AppSpec } from "../../../../src/resources/app-spec.ts";
import {
  DEPLOYED_AT_ANNOTATION,
  type Resource,
  SOURCE_REVISION_ANNOTATION,
} from "../../../../src/resources/resource.ts";
import { applyResource, openTestStore, type TestStore } from "../../../support/test-store.ts";

const FIRST = "1".repeat(40);
const SECOND = "2".repeat(40);
const URL = "https://git.example.org/team/app.git";

let held: TestStore;
let tasks: TaskGroup;
let sources: SourceTracker;
let woken: string[];
/**
 * The revision to which each app's source resolves, by the app's name, or the error with which the resolution fails.
 */
let remote: Map<string, string | Error>;
let looks: string[];
let blocked: Promise<void> | undefined;

beforeEach(() => {
  held = openTestStore();
  woken = [];
  looks = [];
  remote = new Map([["web", FIRST]]);
  blocked = undefined;
  tasks = new TaskGroup((error) => {
    throw error;
  });
  sources = newSources();
});

afterEach(async () => {
  await tasks[Symbol.asyncDispose]();
  await held[Symbol.asyncDispose]();
});

describe("the resolution of a source", () => {
  test("runs once and wakes the app, and its result survives a restart", async () => {
    const app = apply("web", git());
    expect(sources.state(app)).toEqual({
      type: "resolving",
      message: `resolving main of ${URL}`,
    });
    expect(sources.state(app).type).toBe("resolving");
    await held.clock.settle();
    expect(woken).toEqual(["web"]);
    expect(sources.state(app)).toMatchObject({ type: "resolved", revision: FIRST });
    await held.reopen();
    sources = newSources();
    remote.set("web", SECOND);
    expect(sources.state(app)).toMatchObject({ type: "resolved", revision: FIRST });
    expect(looks).toEqual(["web"]);
  });

  test("runs again when a user deploys, and no older result is returned meanwhile", async () => {
    await resolved("web", git());
    remote.set("web", SECOND);
    const app = apply("web", git(), { [DEPLOYED_AT_ANNOTATION]: "2030-01-01T00:00:00Z" });
    expect(sources.state(app).type).toBe("resolving");
    await held.clock.settle();
    expect(sources.state(app)).toMatchObject({ type: "resolved", revision: SECOND });
  });

  test("continues when other parts of the spec change meanwhile", async () => {
    const { promise, resolve } = gate();
    blocked = promise;
    sources.state(apply("web", git()));
    await held.clock.settle();
    blocked = undefined;
    remote.set("web", SECOND);
    const next = apply("web", git({ ref: "next" }));
    sources.state(next);
    await held.clock.settle();
    remote.set("web", "3".repeat(40));
    resolve();
    await held.clock.settle();
    expect(sources.state(next)).toMatchObject({ type: "resolved", revision: SECOND });
  });

  test("does not run while the app is pinned to a commit", async () => {
    const app = apply("web", git({ interval: "10s" }), { [SOURCE_REVISION_ANNOTATION]: SECOND });
    expect(sources.state(app)).toMatchObject({ type: "resolved", revision: SECOND });
    await held.clock.advance(60_000);
    expect(looks).toEqual([]);
  });

  test("waits in a queue, because only a limited number of resolutions run concurrently", async () => {
    const { promise, resolve } = gate();
    blocked = promise;
    const names = Array.from({ length: 10 }, (_, index) => `app-${index}`);
    for (const name of names) {
      remote.set(name, FIRST);
      sources.state(apply(name, git()));
    }
    await held.clock.settle();
    expect(looks).toEqual(names.slice(0, 4));
    resolve();
    await held.clock.settle();
    expect(looks).toEqual(names);
    expect(woken.toSorted()).toEqual(names);
  });
});

describe("a resolution that fails", () => {
  test.each([
    ["git_denied", "GitDenied", true],
    ["git_not_found", "GitNotFound", true],
    ["archive_invalid", "SourceInvalid", true],
    ["git_unreachable", "GitUnreachable", false],
    ["disk_full", "DiskFull", false],
  ] as const)(
    "with the error %s reports the reason %s until the failure is cleared",
    async (code, reason, terminal) => {
      remote.set("web", new BerthError(code, "no such luck", { hint: "look again" }));
      const app = apply("web", git());
      sources.state(app);
      await held.clock.settle();
      const message = "no such luck; look again";
      expect(sources.state(app)).toEqual({ type: "failed", reason, message, terminal });
      expect(sources.state(app).type).toBe("failed");
      expect(looks).toHaveLength(1);
      remote.set("web", FIRST);
      sources.clearFailure("web");
      expect(sources.state(app).type).toBe("resolving");
      await held.clock.settle();
      expect(sources.state(app).type).toBe("resolved");
    },
  );

  test("shows no secret, and runs again when the credential changes", async () => {
    secret("deploy-key", { token: "hunter2-hunter2" });
    remote.set("web", new BerthError("git_denied", "the server refused hunter2-hunter2"));
    const app = apply("web", git({ credential: "deploy-key" }));
    sources.state(app);
    await held.clock.settle();
    expect(sources.state(app)).toMatchObject({ message: "the server refused (secret)" });
    secret("deploy-key", { token: "another-value" });
    expect(sources.state(app).type).toBe("resolving");
  });

  test("with an internal error does not show the message of the error", async () => {
    remote.set("web", new Error("ENOENT: /var/lib/berth/secret-place"));
    const app = apply("web", git());
    sources.state(app);
    await held.clock.settle();
    const state = sources.state(app);
    expect(state).toMatchObject({ type: "failed", reason: "InternalError", terminal: false });
    expect(JSON.stringify(state)).not.toContain("secret-place");
  });
});

describe("the polling of a source", () => {
  test("updates the pinned commit when the branch has moved, and records an event", async () => {
    const app = await resolved("web", git({ interval: "1m" }));
    woken = [];
    await held.clock.advance(59_000);
    expect(looks).toHaveLength(1);
    await held.clock.advance(2_000);
    expect(looks).toHaveLength(2);
    expect(woken).toEqual([]);
    remote.set("web", SECOND);
    await held.clock.advance(60_000);
    expect(woken).toEqual(["web"]);
    expect(sources.state(app)).toMatchObject({ type: "resolved", revision: SECOND });
    expect(events()).toEqual([
      `Normal SourceChanged main of ${URL} changed from 111111111111 to 222222222222`,
    ]);
  });

  test("keeps the pinned commit while the server is unreachable, and records one event", async () => {
    const app = await resolved("web", git({ interval: "1m" }));
    remote.set("web", new BerthError("git_unreachable", "nobody answers"));
    await held.clock.advance(30 * 60_000);
    expect(looks.length).toBeGreaterThan(20);
    expect(sources.state(app)).toMatchObject({ type: "resolved", revision: FIRST });
    const told = `Warning GitUnreachable main of ${URL} cannot be resolved, and the app stays at 111111111111: nobody answers`;
    expect(events()).toEqual([told]);
    remote.set("web", FIRST);
    await held.clock.advance(60_000);
    remote.set("web", new BerthError("git_unreachable", "nobody answers"));
    await held.clock.advance(60_000);
    expect(held.store.events.list({ limit: 10 }).map(({ count }) => count)).toEqual([1, 1]);
  });

  test("reports that the branch was deleted, until the branch exists again", async () => {
    const app = await resolved("web", git({ interval: "1m" }));
    woken = [];
    remote.set("web", new BerthError("git_not_found", "there is no branch main"));
    await held.clock.advance(10 * 60_000);
    expect(sources.state(app)).toMatchObject({
      type: "resolved",
      revision: FIRST,
      fetchFailure: {
        message: `main of ${URL} cannot be resolved, and the app stays at 111111111111: there is no branch main`,
      },
    });
    expect(woken).toEqual(["web"]);
    remote.set("web", FIRST);
    await held.clock.advance(60_000);
    expect(sources.state(app)).not.toHaveProperty("fetchFailure");
    expect(woken).toEqual(["web", "web"]);
  });

  test("resolves the source at once if the polling interval passed while Berth was not running", async () => {
    const app = await resolved("web", git({ interval: "1m" }));
    remote.set("web", SECOND);
    await tasks[Symbol.asyncDispose]();
    tasks = new TaskGroup(() => {});
    sources.close();
    await held.clock.advance(10 * 60_000);
    sources = newSources();
    sources.state(app);
    await held.clock.advance(1);
    expect(sources.state(app)).toMatchObject({ revision: SECOND });
  });

  test.each<[string, () => void]>([
    [
      "is deleted",
      () =>
        held.store.delete("App", "web", {
          actor: { name: "test", scope: "admin" },
          manager: "api",
        }),
    ],
    ["is suspended", () => apply("web", { ...git({ interval: "1m" }), suspend: true })],
    ["no longer follows its source", () => apply("web", git())],
  ])("ends when the app %s", async (_, act) => {
    await resolved("web", git({ interval: "1m" }));
    act();
    await held.clock.advance(10 * 60_000);
    expect(looks).toHaveLength(1);
  });
});

describe("a hook that reports a push", () => {
  test("resolves the sources of all apps of the repository and branch", async () => {
    for (const [name, source] of [
      ["web", git()],
      ["any", git({ ref: undefined })],
      ["other-branch", git({ ref: "next" })],
      ["other-place", git({ url: "https://git.example.org/team/other" })],
      ["fixed", git({ ref: FIRST })],
    ] as const) {
      remote.set(name, FIRST);
      await resolved(name, source);
    }
    looks = [];
    remote.set("web", SECOND);
    const urls = ["git@git.example.org:team/app.git", "https://git.example.org/team/app"];
    expect(sources.refreshFollowers({ urls, ref: "refs/heads/main" })).toEqual(["any", "web"]);
    await held.clock.settle();
    expect(looks.toSorted()).toEqual(["any", "web"]);
    expect(held.store.sourcePins.get("web")?.revision).toBe(SECOND);
    expect(events()).toHaveLength(1);
  });

  test("during a resolution triggers another one, because the running one may have missed the push", async () => {
    await resolved("web", git());
    const { promise, resolve } = gate();
    blocked = promise;
    sources.refreshFollowers({ urls: [URL], ref: "main" });
    await held.clock.settle();
    remote.set("web", SECOND);
    sources.refreshFollowers({ urls: [URL], ref: "main" });
    blocked = undefined;
    resolve();
    await held.clock.settle();
    expect(looks).toHaveLength(3);
    expect(held.store.sourcePins.get("web")?.revision).toBe(SECOND);
  });

  test("wakes an app whose source could not be resolved before", async () => {
    remote.set("web", new BerthError("git_not_found", "no branch main"));
    const app = apply("web", git());
    sources.state(app);
    await held.clock.settle();
    remote.set("web", FIRST);
    expect(sources.refreshFollowers({ urls: [URL], ref: "main" })).toEqual(["web"]);
    await held.clock.settle();
    expect(sources.state(app)).toMatchObject({ type: "resolved", revision: FIRST });
  });

  test("does not affect an app that is pinned to a commit", async () => {
    apply("web", git(), { [SOURCE_REVISION_ANNOTATION]: FIRST });
    expect(sources.refreshFollowers({ urls: [URL], ref: "main" })).toEqual([]);
  });
});

test("the source of a removed app is unpinned and no longer polled", async () => {
  await resolved("web", git({ interval: "1m" }));
  sources.forget("web");
  expect(held.store.sourcePins.get("web")).toBeUndefined();
  await held.clock.advance(10 * 60_000);
  expect(looks).toHaveLength(1);
});

function newSources(): SourceTracker {
  return new SourceTracker({
    store: held.store,
    clock: held.clock,
    logger: silentLogger,
    tasks,
    onChanged: (app) => woken.push(app),
    resolve: async (resource, signal) => {
      const { name } = resource.metadata;
      looks.push(name);
      const found = remote.get(name);
      await blocked;
      signal.throwIfAborted();
      if (found === undefined || found instanceof Error) throw found ?? new Error("unknown app");
      return found;
    },
  });
}

function git(changes: Partial<GitSource> | { ref: undefined } = {}): AppSpec {
  const source = { url: URL, ref: "main", ...changes };
  const { ref, ...rest } = source;
  return { source: { git: ref === undefined ? rest : { ...rest, ref } } };
}

function apply(
  name: string,
  spec: AppSpec,
  annotations: Record<string, string> = {},
): Resource<"App"> {
  return applyResource(held.store, "App", name, spec, { annotations });
}

function secret(name: string, data: Record<string, string>): void {
  applyResource(held.store, "Secret", name, { data });
}

async function resolved(name: string, spec: AppSpec): Promise<Resource<"App">> {
  const app = apply(name, spec);
  sources.state(app);
  await held.clock.settle();
  expect(sources.state(app).type).toBe("resolved");
  return app;
}

function events(): string[] {
  return held.store.events
    .list({ limit: 100 })
    .filter(({ reason }) => reason !== "Created")
    .map(({ type, reason, message }) => `${type} ${reason} ${message}`);
}

function gate(): { promise: Promise<void>; resolve: () => void } {
  const open = new AbortController();
  const promise = new Promise<void>((done) => {
    open.signal.addEventListener("abort", () => done());
  });
  return { promise, resolve: () => open.abort() };
}
