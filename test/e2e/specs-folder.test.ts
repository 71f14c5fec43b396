import { appendFile, mkdir, rename, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { appFile, BerthProcess, fetchText } from "../support/berth-process.ts";
import { SHELL, WEB } from "../support/images.ts";

const web = { image: WEB, port: 8080, stopGracePeriod: "1s" } as const;
/** The spec of Apps that never run, for tests that concern only the specs folder. */
const idle = { image: SHELL, running: false } as const;

test("no resource is deleted when the specs folder is moved away or emptied", async () => {
  await using berth = await BerthProcess.open({
    specs: { "web.yaml": appFile("web", web), "idle.yaml": appFile("idle", idle) },
  });
  const { url } = await berth.waitForAppReady("web");
  const { id } = await berth.container("web");
  const away = join(berth.root, "away");
  const nothingLost = async () => {
    expect((await berth.client.apps.list()).total).toBe(2);
    expect((await berth.container("web")).id).toBe(id);
    expect(await fetchText(url)).toBe("web:1\n");
  };

  await rename(berth.specsDir, away);
  await berth.until(
    "the folder is missed",
    async () => (await berth.client.specs()).state === "missing",
  );
  await berth.event("SpecFolderMissing");
  await nothingLost();
  expect((await berth.cli(["specs", "--check"])).code).toBe(1);

  // Berth creates a missing specs folder when it starts. An empty folder deletes no resources.
  await berth.stop();
  await berth.start();
  await berth.until("an empty folder is noticed", async () => {
    const { state } = await berth.client.specs();
    return state === "empty" || state === "missing";
  });
  await berth.waitForAppReady("web");
  await nothingLost();

  await rm(berth.specsDir, { recursive: true, force: true });
  await rename(away, berth.specsDir);
  await berth.until(
    "the folder is followed again",
    async () => (await berth.client.specs()).files.length === 2,
  );
  await berth.write("web.yaml", appFile("web", { ...web, env: { BODY: "back" } }));
  await berth.until("the edit counts", async () => (await fetchText(url)) === "back\n");
  const back = await berth.container("web");

  await Promise.all([berth.remove("web.yaml"), berth.remove("idle.yaml")]);
  await berth.event("PruneHeld");
  await berth.until("both apps wait for a confirmation", async () => {
    const { state, pending_prune: pending } = await berth.client.specs();
    return state === "empty" && pending.length === 2;
  });
  expect((await berth.container("web")).id).toBe(back.id);
});

test("deletions that together concern more than 30 % of the resources wait for a confirmation", async () => {
  const names = ["a", "b", "c", "d", "e", "f", "g", "h"].map((letter) => `app-${letter}`);
  await using berth = await BerthProcess.open({
    specs: Object.fromEntries(names.map((name) => [`${name}.yaml`, appFile(name, idle)])),
  });
  const present = async () => (await berth.client.apps.list()).apps.map(({ name }) => name);
  expect(await present()).toHaveLength(8);
  // Two deletions among eight files are below the limit above which a prune waits for the user's confirmation.
  await Promise.all([berth.remove("app-a.yaml"), berth.remove("app-b.yaml")]);
  await berth.until("two are pruned", async () => (await present()).length === 6);

  const rest = ["app-c", "app-d", "app-e"];
  await Promise.all(rest.map((name) => berth.remove(`${name}.yaml`)));
  await berth.event("PruneHeld");
  expect(await present()).toHaveLength(6);
  const shown = await berth.cli(["prune"]);
  expect(shown.code).toBe(0);
  for (const name of rest) expect(shown.stdout).toContain(`app/${name} (was in ${name}.yaml)`);
  // One file is restored, so its resource is kept.
  await berth.write("app-c.yaml", appFile("app-c", idle));
  await berth.until("it is not held any more", async () => {
    const { pending_prune: pending } = await berth.client.specs();
    return pending.every(({ name }) => name !== "app-c");
  });
  await berth.cli(["prune", "--confirm"]);
  await berth.until("the others are gone", async () => {
    const left = await present();
    return left.join() === "app-c,app-f,app-g,app-h";
  });
  expect((await berth.cli(["prune", "--confirm"])).stdout).toContain("no deletion waits");
});

test("a half-written file changes nothing until it is complete", async () => {
  await using berth = await BerthProcess.open({ specs: { "web.yaml": appFile("web", web) } });
  const first = await berth.waitForAppReady("web");
  const whole = appFile("web", { ...web, env: { BODY: "whole" } });
  const file = join(berth.specsDir, "web.yaml");
  await writeFile(file, whole.slice(0, whole.length / 2));
  const specs = await berth.until("it is told", async () => {
    const found = await berth.client.specs();
    return found.files[0]?.state === "invalid" ? found : undefined;
  });
  expect(specs.files[0]).toMatchObject({ file: "web.yaml", resources: [{ name: "web" }] });
  expect(specs.files[0]?.errors[0]?.line).toBeGreaterThan(1);
  const held = await berth.app("web");
  expect(held).toMatchObject({ generation: 1, ready: true });
  expect(held.containers.map(({ id }) => id)).toEqual(first.containers.map(({ id }) => id));
  await appendFile(file, whole.slice(whole.length / 2));
  const app = await berth.waitForAppReady("web", ({ generation }) => generation === 2);
  expect(await fetchText(app.url)).toBe("whole\n");
});

test("of two files that declare one app, the first one owns it, and the other one gets an error with the reason", async () => {
  await using berth = await BerthProcess.open({
    specs: { "first.yaml": appFile("web", { ...web, env: { BODY: "first" } }) },
  });
  const app = await berth.waitForAppReady("web");
  await berth.write("second.yaml", appFile("web", { ...web, env: { BODY: "second" } }));
  const conflict = await berth.until("it is told", async () => {
    const { files } = await berth.client.specs();
    const file = files.find((it) => it.file === "second.yaml");
    return file?.state === "conflict" ? file : undefined;
  });
  expect(conflict.errors[0]?.message).toMatch(/first\.yaml/);
  await berth.event("SpecConflict");
  expect(await fetchText(app.url)).toBe("first\n");
  expect((await berth.app("web")).generation).toBe(1);

  // After the first file is deleted, the second file owns the app, which keeps running.
  await berth.remove("first.yaml");
  const taken = await berth.waitForAppReady("web", (it) => it.managed_by === "file:second.yaml");
  expect(taken.id).toBe(app.id);
  await berth.until("its text counts", async () => (await fetchText(app.url)) === "second\n");
});

test("a rename moves an app, a forced deletion stays in effect, and Berth follows links like those of a Kubernetes ConfigMap", async () => {
  await using berth = await BerthProcess.open({
    specs: { "old.yaml": appFile("web", web), "other.yaml": appFile("other", idle) },
  });
  const app = await berth.waitForAppReady("web");
  const { id } = await berth.container("web");
  await rename(join(berth.specsDir, "old.yaml"), join(berth.specsDir, "new.yaml"));
  const moved = await berth.waitForAppReady("web", (it) => it.managed_by === "file:new.yaml");
  expect([moved.id, (await berth.container("web")).id]).toEqual([app.id, id]);

  const refused = await berth.cli(["delete", "other"]);
  expect(refused.code).toBe(1);
  expect(refused.stderr).toContain("other.yaml");
  expect((await berth.cli(["delete", "other", "--force", "--wait"])).code).toBe(0);
  await berth.write("other.yaml", appFile("other", idle));
  await berth.write("more.yaml", appFile("more", idle));
  await berth.waitForApp("more", "a later file counts", () => true);
  expect((await berth.client.apps.list()).apps.map(({ name }) => name)).toEqual(["more", "web"]);
  await berth.write("other.yaml", appFile("other", { ...idle, env: { A: "1" } }));
  await berth.waitForApp("other", "new text counts", () => true);

  // The link `..data` is swapped in one step, as Kubernetes does it.
  const mounted = join(berth.specsDir, "mounted");
  const version = async (name: string, body: string) => {
    await mkdir(join(mounted, `..${name}`), { recursive: true });
    const text = appFile("mounted", { ...web, env: { BODY: body } });
    await writeFile(join(mounted, `..${name}`, "app.yaml"), text);
    await symlink(`..${name}`, join(mounted, "..data.next"));
    await rename(join(mounted, "..data.next"), join(mounted, "..data"));
  };
  await version("1", "one");
  await symlink("..data/app.yaml", join(mounted, "app.yaml"));
  const one = await berth.waitForAppReady("mounted");
  expect(await fetchText(one.url)).toBe("one\n");
  await version("2", "two");
  await rm(join(mounted, "..1"), { recursive: true });
  await berth.until("the swap counts", async () => (await fetchText(one.url)) === "two\n");
});
