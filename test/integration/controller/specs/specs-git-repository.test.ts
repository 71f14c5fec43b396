import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it, onTestFinished, vi } from "vitest";
import { Git } from "../../../../src/controller/git/git.ts";
import { bundleProgram } from "../../../support/bundle-program.ts";
import { GitHttpServer } from "../../../support/git-http-server.ts";
import { SpecsGitHarness } from "../../../support/specs-git-harness.ts";
import { appText } from "../../../support/specs-harness.ts";
import { temporaryFolder } from "../../../support/temporary-folder.ts";
import { applyResource } from "../../../support/test-store.ts";

const PROGRAM = await bundleProgram("test/support/specs-git-process.ts");

/** The number of files: high enough that a kill interrupts their writing. */
const FILES = 80;

it("the folder follows a private repository over HTTP with a token, even after outages", async () => {
  await using server = await GitHttpServer.start({ auth: { password: "t0ps3cret" } });
  await server.repositories.create("shop");
  const first = await server.repositories.commit("shop", {
    "deploy/web.yaml": appText("web"),
    "deploy/link.yaml": { link: "/etc/passwd" },
    "README.md": "# Shop",
  });
  await using harness = new SpecsGitHarness(new Git({ dir: temporaryFolder("specs-git") }), {
    url: server.url("shop"),
    path: "deploy",
    credential: "git",
  });
  const secret = (token: string) =>
    applyResource(harness.store, "Secret", "git", { data: { token } });
  secret("wrong");
  const denied = await harness.sync();
  expect(denied.state).toBe("failing");
  expect(denied.message).not.toContain("wrong");
  secret("t0ps3cret");
  expect(await harness.sync()).toMatchObject({ state: "following", commit: first });
  expect(harness.apps).toEqual(["web"]);
  expect(await harness.files()).toEqual(["shop/.berth-git.json", "shop/web.yaml"]);

  server.fault = { type: "status", code: 503 };
  const second = await server.repositories.commit("shop", {
    "deploy/web.yaml": null,
    "deploy/app/web.yaml": appText("web", "nginx:2"),
    "deploy/db.yaml": appText("db"),
  });
  expect(await harness.sync()).toMatchObject({ state: "failing", commit: first });
  expect(harness.apps).toEqual(["web"]);
  server.fault = undefined;
  expect(await harness.sync()).toMatchObject({ state: "following", commit: second });
  await harness.scanTwice();
  expect(harness.apps).toEqual(["db", "web"]);
  expect(harness.store.get("App", "web")?.spec.image).toBe("nginx:2");
  expect(await harness.files()).toEqual([
    "shop/.berth-git.json",
    "shop/app/web.yaml",
    "shop/db.yaml",
  ]);
  await server.repositories.git("shop", ["update-ref", "-d", "refs/heads/main"]);
  expect(await harness.sync()).toMatchObject({ state: "failing", commit: second });
  await harness.scanTwice();
  expect(harness.apps).toEqual(["db", "web"]);
});

it("after kill -9 during the writing of files, the next start makes the folder match the commit", async () => {
  await using server = await GitHttpServer.start();
  await server.repositories.create("shop");
  const files = (version: number) =>
    Object.fromEntries(
      Array.from({ length: FILES }, (_, index) => [
        `f${index}.yaml`,
        appText(`app-${index}`, `web:${version}`),
      ]),
    );
  await server.repositories.commit("shop", { ...files(1), "gone.yaml": appText("gone") });
  const dir = temporaryFolder("specs-git");
  const shop = join(dir, "specs/shop");
  const names = () =>
    existsSync(shop) ? readdirSync(shop).filter((name) => !name.startsWith(".")) : [];
  const marker = (): { commit: string | null } =>
    JSON.parse(readFileSync(join(shop, ".berth-git.json"), "utf8"));
  const textOf = (name: string) => readFileSync(join(shop, name), "utf8");
  const isNew = (version: number) =>
    names().filter((name) => textOf(name).includes(`web:${version}`)).length;
  const run = () => {
    const child = spawn(process.execPath, [PROGRAM, dir, server.url("shop")], {
      stdio: ["pipe", "inherit", "inherit"],
    });
    const exit = once(child, "exit");
    const kill = async () => {
      child.kill("SIGKILL");
      await exit;
    };
    onTestFinished(kill);
    return kill;
  };
  const soon = { timeout: 30_000, interval: 5 };

  let kill = run();
  await vi.waitFor(() => expect(names().length).toBeGreaterThan(3), soon);
  await kill();
  expect(names().length).toBeLessThan(FILES + 1);
  expect(marker().commit).toBeNull();

  kill = run();
  await vi.waitFor(() => expect(marker().commit).not.toBeNull(), soon);
  expect(names()).toHaveLength(FILES + 1);
  const first = marker().commit;
  const second = await server.repositories.commit("shop", { ...files(2), "gone.yaml": null });
  await vi.waitFor(() => expect(isNew(2)).toBeGreaterThan(3), soon);
  await kill();
  // Each file has either its old or its new content, and no file is removed before all files are written.
  expect(isNew(2)).toBeLessThan(FILES);
  expect(isNew(1) + isNew(2)).toBe(FILES);
  expect(names()).toContain("gone.yaml");
  expect(marker().commit).toBe(first);

  run();
  await vi.waitFor(() => expect(marker().commit).toBe(second), soon);
  expect(isNew(2)).toBe(FILES);
  expect(names()).toHaveLength(FILES);
  expect(readdirSync(shop).filter((name) => name.endsWith(".tmp"))).toEqual([]);
  expect(readdirSync(join(dir, "checkouts"))).toEqual([]);
}, 90_000);
