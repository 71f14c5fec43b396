import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { parse } from "yaml";
import { systemClock } from "../../../src/base/clock.ts";
import { APP_FINALIZER } from "../../../src/resources/resource.ts";
import { STACK_LABEL } from "../../../src/resources/stack.ts";
import { appStatus, openTestApi, type TestApi } from "../../support/api-harness.ts";
import { type CliResult, runCommandLine } from "../../support/run-cli.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";
import { applyResource } from "../../support/test-store.ts";
import { WAIT_OPTIONS } from "../../support/wait-limits.ts";

let api: TestApi;
let url: string;

beforeEach(async () => {
  api = await openTestApi({ clock: systemClock });
  url = await api.listen();
  const labels = { [STACK_LABEL]: "blog" };
  for (const name of ["blog-db", "blog-web"])
    applyResource(api.store, "App", name, { image: "web:1" }, { labels });
  const { uid, generation } = api.store.get("App", "blog-db")?.metadata ?? {
    uid: "",
    generation: 0,
  };
  api.store.setStatus("App", "blog-db", uid, appStatus(generation));
});
afterEach(async () => {
  await api[Symbol.asyncDispose]();
});

function run(commandLine: string): Promise<CliResult> {
  const folder = temporaryFolder("cli");
  return runCommandLine(commandLine.split(" "), {
    workingDirectory: folder,
    environment: { BERTH_URL: url, BERTH_TOKEN: api.token("admin"), XDG_CONFIG_HOME: folder },
  });
}

const writeManifest = (name: string, stack?: string) =>
  JSON.stringify({
    apiVersion: "berth.dev/v1",
    kind: "App",
    metadata: { name, ...(stack && { stack }) },
    spec: { image: "web:2" },
  });

describe("a stack on the command line", () => {
  it("is listed with the number of its apps that are ready", async () => {
    const { code, output } = await run("get stacks");
    expect(code).toBe(0);
    expect(output).toMatch(/^NAME +STATUS +READY/);
    expect(output).toMatch(/blog +pending +1\/2/);
    expect((await run("get stacks -o name")).output.trim()).toBe("stack/blog");
    expect(parse((await run("get stack/blog -o yaml")).output)).toMatchObject({
      apps: 2,
      ready: 1,
    });
  });

  it("is described with its apps", async () => {
    const { output } = await run("describe stack/blog");
    expect(output).toMatch(/Ready: +1\/2 apps/);
    expect(output).toContain("blog-db");
    expect(output).toContain("blog-web");
  });

  it("is stopped, started and deleted as a whole", async () => {
    expect((await run("stop stack/blog")).output).toBe(
      "app/blog-db is stopping\napp/blog-web is stopping\n",
    );
    expect(api.store.get("App", "blog-web")?.spec.running).toBe(false);
    expect((await run("start stack/blog --dry-run")).output).toContain("blog-db: would start");
    expect((await run("delete stack/blog")).output).toContain("app/blog-web is being deleted");
    expect(api.store.get("App", "blog-db")?.metadata.deletionTimestamp).not.toBeNull();
  });

  it("is not deleted with its data by a script without --yes", async () => {
    const { code, errors } = await run("delete stack/blog --volumes");
    expect(code).toBe(2);
    expect(errors).toContain("--yes");
    expect(api.store.get("App", "blog-db")?.metadata.deletionTimestamp).toBeNull();
  });

  it("cannot be named together with an app, and needs a name where one is needed", async () => {
    expect((await run("stop stack/blog other")).errors).toContain("cannot be named together");
    expect((await run("delete stack")).errors).toContain("delete needs a name");
    expect((await run("describe stack/none")).errors).toContain('there is no stack "none"');
    expect((await run("get stack/none")).errors).toMatch(/kinds: .*stacks/);
    expect((await run("get stak/none")).errors).toContain("stacks");
  });

  it("is gone after a deletion with --wait", async () => {
    const deletion = run("delete stack/blog --wait");
    await vi.waitFor(
      () => expect(api.store.get("App", "blog-db")?.metadata.deletionTimestamp).not.toBeNull(),
      WAIT_OPTIONS,
    );
    for (const name of ["blog-db", "blog-web"])
      api.store.removeFinalizer("App", name, APP_FINALIZER);
    expect((await deletion).output).toBe("app/blog-db is gone\napp/blog-web is gone\n");
  });

  it("has a column in the wide list of apps, whose rows --stack selects", async () => {
    applyResource(api.store, "App", "alone", { image: "web:1" });
    const { output } = await run("get apps -o wide");
    expect(output).toMatch(/^NAME .* STACK /);
    expect(output).toMatch(/blog-db .* blog /);
    expect((await run("get apps --stack blog -o name")).output).toBe("app/blog-db\napp/blog-web\n");
    expect((await run("get apps --stack shop")).errors).toContain("no app of the stack shop");
    expect((await run("get stacks --stack blog")).code).toBe(2);
  });

  it("is named in the description of its apps, with the short address in its network", async () => {
    applyResource(
      api.store,
      "App",
      "blog-web",
      { image: "web:1", port: 80 },
      { labels: { [STACK_LABEL]: "blog" } },
    );
    const { output } = await run("describe blog-web");
    expect(output).toMatch(/Stack: +blog/);
    expect(output).toContain("web:80 in the stack, blog-web:80, for other apps");
    expect(output).not.toContain(STACK_LABEL);
  });

  it("gets an app with `berth create --stack`, which cannot be combined with --template", async () => {
    expect((await run("create blog-cache --stack blog --image redis:8 --no-wait")).code).toBe(0);
    expect(api.store.get("App", "blog-cache")?.metadata.labels).toEqual({ [STACK_LABEL]: "blog" });
    expect((await run("create blog-x --stack blog --template whoami")).errors).toContain(
      "--stack cannot be combined with --template",
    );
  });

  it("groups its apps in the output of plan, apply and diff", async () => {
    expect((await run("plan stack/blog")).output).toMatch(
      /^stack\/blog:\n {2}app\/blog-db, generation 1.*\n( {4}.*\n)+ {2}app\/blog-web/,
    );
    const file = join(temporaryFolder("apply"), "apps.yaml");
    writeFileSync(
      file,
      [
        writeManifest("blog-db", "blog"),
        writeManifest("alone"),
        writeManifest("blog-web", "blog"),
      ].join("\n---\n"),
    );
    const diff = (await run(`diff -f ${file}`)).output;
    expect(diff).toMatch(
      /^stack\/blog:\n {2}app\/blog-db\n[^]*\n {2}app\/blog-web\n[^]*\napp\/alone/,
    );
    const applied = (await run(`apply -f ${file}`)).output;
    expect(applied).toMatch(
      /^stack\/blog:\n {2}app\/blog-db configured\n[^]*^app\/alone created$/m,
    );
    expect((await run(`apply -f ${file} -o name`)).output).toBe(
      "app/blog-db\napp/alone\napp/blog-web\n",
    );
  });

  it("groups the deletions that wait for a confirmation", async () => {
    api.control.specsReport = {
      ...api.control.specsReport,
      pendingPrune: [
        { kind: "App", name: "blog-db", file: "blog.yaml" },
        { kind: "App", name: "gone", file: "gone.yaml" },
        { kind: "App", name: "blog-web", file: "blog.yaml" },
      ],
    };
    expect((await run("prune")).output).toContain(
      "  stack/blog:\n    app/blog-db (was in blog.yaml)\n    app/blog-web (was in blog.yaml)\n  app/gone",
    );
  });
});
