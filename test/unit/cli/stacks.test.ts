import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { parse } from "yaml";
import { systemClock } from "../../../src/base/clock.ts";
import { STACK_LABEL } from "../../../src/resources/stack.ts";
import { appStatus, openTestApi, type TestApi } from "../../support/api-harness.ts";
import { type CliResult, runCommandLine } from "../../support/run-cli.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";
import { applyResource } from "../../support/test-store.ts";

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
    expect((await run("stop stack/blog")).output).toBe("app/blog-db: stop\napp/blog-web: stop\n");
    expect(api.store.get("App", "blog-web")?.spec.running).toBe(false);
    expect((await run("start stack/blog --dry-run")).output).toContain("blog-db: would start");
    expect((await run("delete stack/blog")).output).toContain("app/blog-web: delete");
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
  });
});
