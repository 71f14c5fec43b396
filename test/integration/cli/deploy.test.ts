import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { gunzipSync } from "node:zlib";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { systemClock } from "../../../src/base/clock.ts";
import { appNameFromRepository, toAppName } from "../../../src/cli/deploy/derive-app-name.ts";
import { parseExposedPort } from "../../../src/cli/deploy/resolve-port.ts";
import {
  appStatus,
  condition,
  openTestApi,
  putApp,
  type TestApi,
} from "../../support/api-harness.ts";
import { type CliResult, runCommandLine } from "../../support/run-cli.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";

let api: TestApi;
let url: string;
let folder: string;
let unwatch = () => {};
const timers: NodeJS.Timeout[] = [];

beforeEach(async () => {
  api = await openTestApi({ clock: systemClock });
  url = await api.listen();
  folder = temporaryFolder("deploy");
});
afterEach(async () => {
  unwatch();
  for (const timer of timers.splice(0)) clearInterval(timer);
  await api[Symbol.asyncDispose]();
});

const run = (...words: string[]): Promise<CliResult> =>
  runCommandLine(words, {
    workingDirectory: folder,
    environment: {
      BERTH_URL: url,
      BERTH_TOKEN: api.token("admin"),
      XDG_CONFIG_HOME: join(folder, ".config"),
    },
  });

function files(content: Readonly<Record<string, string>>): void {
  for (const [path, text] of Object.entries(content)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
}

/** Simulates the build and the reconciler for each new generation of the app. */
function builds(
  log: readonly string[],
  { failure, isFollowed = true }: { failure?: string; isFollowed?: boolean } = {},
): void {
  let seen = "";
  unwatch = api.store.watch(({ kind, type, name, generation }) => {
    if (kind !== "App" || type === "status" || seen === `${name} ${generation}`) return;
    const app = api.store.get("App", name);
    if (!app || app.metadata.generation !== generation) return;
    seen = `${name} ${generation}`;
    const { uid } = app.metadata;
    const { id } = api.store.builds.create({
      app: name,
      generation,
      source: "archive",
      revision: "0123456789abcdef",
      image: `built:${generation}`,
    });
    const building = [condition("Ready", "False", generation)];
    api.store.setStatus(
      "App",
      name,
      uid,
      appStatus(generation, { phase: "building", conditions: building }),
    );
    const end = () => {
      for (const line of log) api.builds.emitLine(id, line);
      api.builds.logs.set(id, [...log]);
      if (failure === undefined) api.store.builds.mark(id, "succeeded");
      else api.store.builds.mark(id, "failed", { message: failure });
      api.builds.emitLine(id, null);
      const stalled = condition("Stalled", "True", generation, { message: failure ?? "" });
      api.store.setStatus(
        "App",
        name,
        uid,
        failure === undefined
          ? appStatus(generation)
          : appStatus(generation, { phase: "failed", conditions: [...building, stalled] }),
      );
    };
    // The build ends only after a client has begun to follow its log. If it ended earlier, the test would not check
    // that the command follows the log.
    const timer = setInterval(() => {
      if (isFollowed && !api.builds.emitLine(id, "Step 0")) return;
      clearInterval(timer);
      end();
    }, 5);
    timers.push(timer);
  });
}

function uploaded(): string {
  const [archive] = [...api.builds.archives.values()];
  if (archive === undefined) throw new Error("nothing was uploaded");
  return gunzipSync(archive).toString("latin1");
}

describe("berth deploy", () => {
  it("packs the folder, creates an app with the folder's name, shows the build and prints the address", async () => {
    files({
      "My_Shop/Dockerfile": "FROM x\nEXPOSE 8080\n",
      "My_Shop/app.js": "hello",
      "My_Shop/.git/config": "secret",
      "My_Shop/.dockerignore": "*.log\n",
      "My_Shop/debug.log": "noise",
    });
    builds(["Step 1/2 : FROM x"]);
    const { code, output, errors } = await run("deploy", "My_Shop");
    expect({ code, errors: code === 0 ? "" : errors }).toEqual({ code: 0, errors: "" });
    expect(output).toBe("app/my-shop is running at http://127.0.0.1:20000\n");
    expect(errors).toContain("my-shop: 3 files");
    expect(errors).toContain("#1 Step 1/2 : FROM x");
    expect(errors).toContain("#1 succeeded");
    const app = api.store.get("App", "my-shop");
    expect(app?.spec).toMatchObject({ port: 8080, source: { archive: expect.any(String) } });
    expect(uploaded()).toContain("app.js");
    expect(uploaded()).not.toContain("noise");
    expect(uploaded()).not.toContain("secret");
  });

  it("uses the given name, port, domain and variables, and shows no build log with --quiet", async () => {
    files({ "app.js": "hello" });
    builds(["Step 1"], { isFollowed: false });
    const flags = ["--port", "81", "--domain", "shop.example.org", "-e", "A=1", "-q"];
    const result = await run("deploy", "--name", "shop", "-e", "B=secret:db/url", ...flags);
    expect(result).toMatchObject({ code: 0, errors: "" });
    expect(api.store.get("App", "shop")?.spec).toMatchObject({
      port: 81,
      domain: "shop.example.org",
      env: { A: "1", B: { secret: "db", key: "url" } },
    });
  });

  it("deploys a worker whose Dockerfile names no port, and keeps it without a port", async () => {
    files({ "worker/Dockerfile": "FROM x\n", "page/Dockerfile": "FROM x\nEXPOSE 80\n" });
    const first = await run("deploy", "worker", "--no-wait");
    expect(first.code).toBe(0);
    expect(first.errors).toContain("Dockerfile has no EXPOSE line, so the app has no port");
    expect(api.store.get("App", "worker")?.spec).not.toHaveProperty("port");
    expect((await run("deploy", "worker", "--no-wait", "--port", "81")).code).toBe(0);
    expect(api.store.get("App", "worker")?.spec.port).toBe(81);
    expect((await run("deploy", "page", "--no-wait", "--no-port")).code).toBe(0);
    expect(api.store.get("App", "page")?.spec).not.toHaveProperty("port");
  });

  it("keeps the port of an existing app, and deploys an equal folder as the same archive", async () => {
    files({ "app.js": "hello" });
    putApp(api.store, "shop", { image: "bb:1", port: 99 });
    expect((await run("deploy", ".", "--name", "shop", "--no-wait")).code).toBe(0);
    const first = api.store.get("App", "shop")?.spec;
    expect(first).toMatchObject({ port: 99, source: { archive: expect.any(String) } });
    expect((await run("deploy", ".", "--name", "shop", "--no-wait")).code).toBe(0);
    expect(api.store.get("App", "shop")?.spec).toEqual(first);
    expect(api.builds.archives.size).toBe(1);
  });

  it("shows a progress bar of the upload on a terminal", async () => {
    files({ Dockerfile: "FROM x\nEXPOSE 80\n", data: "x".repeat(3_000_000) });
    const { code, errors } = await runCommandLine(["deploy", ".", "--name", "shop", "--no-wait"], {
      workingDirectory: folder,
      environment: { BERTH_URL: url, BERTH_TOKEN: api.token("admin"), NO_COLOR: "1" },
      errorIsTerminal: true,
    });
    expect(code).toBe(0);
    expect(errors).toMatch(/\[#+-+\] +\d+ % {2}uploading shop \(.* of 2\.9 MiB\)/);
    expect(errors).toContain("] 100 %  uploading shop (2.9 MiB of 2.9 MiB)\n");
  });

  it("reports a failed build with its last log lines and the command for the whole log", async () => {
    files({ Dockerfile: "FROM x\nEXPOSE 80\n" });
    builds(["Step 2/2 : RUN false"], { failure: "step 2 of 2 (RUN false) ended with 1" });
    const { code, errors } = await run("deploy", ".", "--name", "shop");
    expect(code).toBe(1);
    expect(errors).toContain("#1 Step 2/2 : RUN false");
    expect(errors).toContain('app "shop" has failed: step 2 of 2 (RUN false) ended with 1');
    expect(errors).toContain("`berth builds shop 1 --log`");
  });

  it("exits with 3 after a timeout", async () => {
    files({ Dockerfile: "FROM x\nEXPOSE 80\n" });
    const { code, errors } = await run("deploy", ".", "--name", "shop", "--timeout", "50ms");
    expect(code).toBe(3);
    expect(errors).toContain("not ready after");
  });

  it.each<[string, string[], string]>([
    ["an empty folder", ["deploy", "empty"], "contains no files to build"],
    ["an app of that name with an image", ["deploy", "web"], "--name OTHER"],
    ["a missing folder", ["deploy", "nope"], "no folder nope, and no app of that name"],
    ["a missing path", ["deploy", "./nope"], "there is no folder ./nope"],
    ["a file", ["deploy", "plain/a"], "plain/a is a file, not a folder"],
    ["two sources", ["deploy", "x", "--image", "a", "--git", "b"], "exclude each other"],
    ["--ref alone", ["deploy", ".", "--ref", "x"], "--ref needs --git"],
    ["--image without an app", ["deploy", "--image", "a"], "needs the name of an app"],
    [
      "a port of an image",
      ["deploy", "x", "--image", "a", "--port", "1"],
      "--port cannot be combined with --image",
    ],
    ["a new app of git", ["deploy", "--git", "https://x/y/Z.git"], 'app "z" is new, and its port'],
    ["an app of an image", ["deploy", "other"], 'app "other" runs an image'],
  ])("reports a usage error for %s", async (_what, words, message) => {
    putApp(api.store, "web");
    putApp(api.store, "other");
    files({ "plain/a": "x", "web/Dockerfile": "EXPOSE 80\n" });
    mkdirSync(join(folder, "empty"));
    const result = await run(...words);
    expect(result).toMatchObject({ code: 2, output: "" });
    expect(result.errors).toContain(message);
    expect(api.builds.archives.size).toBe(0);
  });

  it.each<[string, string[], number]>([
    ["index.html", [], 8080],
    ["go.mod", [], 8080],
    ["server.js", ["--port", "81"], 81],
    ["index.html", ["-e", "PORT=5000"], 5000],
    ["index.html", ["-e", "PORT=secret:a/b"], 8080],
  ])(
    "creates the app with the port of the generated Dockerfile, for a folder with the file %s and the flags %j",
    async (name, flags, port) => {
      files({ [`shop/${name}`]: "module example.org/shop\n", "shop/main.go": "package main\n" });
      const { code, errors } = await run("deploy", "shop", "--no-wait", ...flags);
      expect({ code, errors: code === 0 ? "" : errors }).toEqual({ code: 0, errors: "" });
      expect(api.store.get("App", "shop")?.spec.port).toBe(port);
      if (!flags.includes("--port"))
        expect(errors).toContain(`on port ${port}; --port sets another`);
    },
  );

  it("uploads nothing if it cannot build the source", async () => {
    files({ "shop/readme.txt": "hello" });
    const { code, errors } = await run("deploy", "shop");
    expect(code).toBe(1);
    expect(errors).toContain("cannot detect how to build this source");
    expect(api.builds.archives.size).toBe(0);
  });

  it("replaces the image of an app of the same name only on request", async () => {
    files({ "shop/Dockerfile": "FROM x\nEXPOSE 80\n" });
    putApp(api.store, "shop", { image: "bb:1", port: 80 });
    const refused = await run("deploy", "shop");
    expect(refused.code).toBe(2);
    expect(refused.errors).toContain('app "shop" runs the image bb:1, and is not built');
    expect(refused.errors).toContain("`--name shop` replaces the image by the folder");
    expect((await run("deploy", "shop", "--name", "shop", "--no-wait")).code).toBe(0);
    // The app is now built from a folder.
    expect((await run("deploy", "shop", "--no-wait")).code).toBe(0);

    putApp(api.store, "web", { image: "bb:1", port: 80 }, "file:web.yaml");
    files({ "web/Dockerfile": "FROM x\nEXPOSE 80\n" });
    const owned = await run("deploy", "web");
    expect(owned.errors).toContain("which its file web.yaml declares");
    expect(owned.errors).toContain("--force");
    expect((await run("deploy", "web", "--force", "--no-wait")).code).toBe(0);
  });

  it("exits on Ctrl-C while the deploy continues, and prints how to follow the build", async () => {
    files({ "shop/Dockerfile": "FROM x\nEXPOSE 80\n" });
    let isLeft = false;
    const { code, output, errors } = await runCommandLine(["deploy", "shop"], {
      workingDirectory: folder,
      environment: { BERTH_URL: url, BERTH_TOKEN: api.token("admin") },
      onInterruptible: (interrupt) => {
        isLeft = true;
        timers.push(setTimeout(interrupt, 20));
      },
    });
    expect({ code, output, isLeft }).toEqual({ code: 130, output: "", isLeft: true });
    expect(errors).toContain("the deploy continues: `berth builds shop -f` follows it");
    expect(api.store.get("App", "shop")?.spec.source).toBeDefined();
  });

  it("prints why the server refuses an upload", async () => {
    files({ Dockerfile: "FROM x\nEXPOSE 80\n" });
    putApp(api.store, "shop", { image: "bb:1", port: 80 }, "file:shop.yaml");
    const refused = await run("deploy", ".", "--name", "shop");
    expect(refused.code).toBe(1);
    expect(refused.errors).toContain("shop.yaml");
    expect(refused.errors).toContain("use --force");
    expect((await run("deploy", ".", "--name", "shop", "--force", "--no-wait")).code).toBe(0);
  });

  it("builds a repository for a new app and for an existing app, and deploys it again without flags", async () => {
    const git = ["--git", "https://example.org/team/Shop.git"];
    expect((await run("deploy", ...git, "--port", "80", "--no-wait")).code).toBe(0);
    const repository = "https://example.org/team/Shop.git";
    expect(api.store.get("App", "shop")?.spec).toEqual({
      port: 80,
      source: { git: { url: repository } },
    });
    const flags = ["--ref", "v2", "--path", "a", "--credential", "key", "--no-wait"];
    expect((await run("deploy", "shop", ...git, ...flags)).code).toBe(0);
    expect(api.store.get("App", "shop")?.spec.source).toEqual({
      git: { url: repository, ref: "v2", path: "a", credential: "key" },
    });
    const before = api.store.get("App", "shop")?.metadata.generation ?? 0;
    const anew = await run("deploy", "shop", "--no-wait");
    expect(anew).toMatchObject({ code: 0, output: "app/shop is being deployed\n" });
    expect(api.store.get("App", "shop")?.metadata.generation).toBe(before + 1);
  });
});

describe("with a queued build", () => {
  beforeEach(() => {
    putApp(api.store, "shop", { port: 80, source: { archive: "a".repeat(64) } });
    const { id } = api.store.builds.create({
      app: "shop",
      generation: 1,
      source: "archive",
      revision: "a".repeat(64),
      image: "built:a",
    });
    api.builds.logs.set(id, ["one", "two"]);
  });

  it("berth builds lists builds, shows a build and its log, and cancels a build", async () => {
    const list = await run("builds", "shop");
    expect(list.output).toMatch(/^BUILD +STATE +REVISION +SOURCE +TOOK +AGE +MESSAGE\n1 +queued/);
    expect((await run("builds", "shop", "1")).output).toContain("Revision:    aaaa");
    expect((await run("builds", "shop", "-o", "name")).output).toBe("1\n");
    expect((await run("builds", "shop", "--log")).output).toBe("one\ntwo\n");
    expect((await run("builds", "shop", "--cancel")).output).toBe(
      "build 1 of app/shop cancelled\n",
    );
    const again = await run("builds", "shop", "1", "--cancel");
    expect(again.code).toBe(1);
    expect(again.errors).toContain("build 1 has ended already: cancelled");
    const followed = await run("builds", "shop", "1", "-f");
    expect(followed).toMatchObject({ code: 1, output: "one\ntwo\n" });
    expect((await run("builds", "shop", "x")).code).toBe(2);
    expect((await run("builds", "shop", "7")).code).toBe(1);
    expect((await run("builds", "nope")).code).toBe(1);
  });

  it("berth describe shows the domains, the source and the last build of the app", async () => {
    putApp(api.store, "shop", {
      port: 80,
      source: { archive: "a".repeat(64) },
      domain: "shop.example.org",
      ingress: { domains: ["www.example.org"] },
    });
    const { output } = await run("describe", "shop");
    expect(output).toMatch(/^Domains: +shop\.example\.org\n +www\.example\.org$/m);
    expect(output).toMatch(/^Source: +archive aaaaaaaaaaaa$/m);
    expect(output).toMatch(/^Last build: +1 queued, \S+ ago, at aaaaaaaaaaaa$/m);
    const wide = await run("get", "apps", "-o", "wide");
    expect(wide.output).toContain("shop.example.org, www.example.org");
    expect(wide.output).toContain("archive aaaaaaaaaaaa");
  });
});

const spec = (name: string) =>
  `apiVersion: berth.dev/v1\nkind: App\nmetadata: { name: ${name} }\nspec: { port: 80, source: { local: ../src } }\n`;

describe("berth apply and diff of an App with a local source folder", () => {
  it("upload the folder and refer to its archive, which is the same for equal content", async () => {
    files({ "specs/shop.yaml": spec("shop"), "src/app.js": "hello" });
    const different = await run("diff", "-f", "specs/shop.yaml");
    expect(different).toMatchObject({ code: 1, errors: "" });
    expect(api.builds.archives.size).toBe(0);
    expect((await run("apply", "-f", "specs")).output).toBe("app/shop created\n");
    const [digest] = [...api.builds.archives.keys()];
    expect(api.store.get("App", "shop")?.spec.source).toEqual({ archive: digest });
    expect((await run("diff", "-f", "specs/shop.yaml")).code).toBe(0);
    expect((await run("apply", "-f", "specs")).output).toBe("app/shop unchanged\n");
    files({ "src/app.js": "other" });
    expect((await run("diff", "-f", "specs/shop.yaml")).code).toBe(1);
  });

  it("upload nothing if a file in the server's specs folder declares the App with that source folder", async () => {
    files({ "specs/shop.yaml": spec("shop"), "src/app.js": "hello" });
    const source = { local: join(folder, "src") };
    putApp(api.store, "shop", { port: 80, source }, "file:shop.yaml");
    expect((await run("apply", "-f", "specs")).code).toBe(0);
    expect(api.store.get("App", "shop")?.spec.source).toEqual(source);
    expect(api.builds.archives.size).toBe(0);
  });

  it("report a missing folder", async () => {
    files({ "specs/shop.yaml": spec("shop") });
    const { code, errors } = await run("apply", "-f", "specs");
    expect(code).toBe(1);
    expect(errors).toContain('specs/shop.yaml:1: source.local ../src of app "shop": there is no');
  });
});

describe("names and ports", () => {
  it.each([
    ["shop", "shop"],
    ["My_Shop", "my-shop"],
    ["--x..y--", "x-y"],
    ["ü", undefined],
    [`${"a".repeat(62)}-b`, "a".repeat(62)],
  ])("the folder %s gives the app name %s", (text, name) => {
    if (name === undefined) expect(() => toAppName(text)).toThrow("no app name can be derived");
    else expect(toAppName(text)).toBe(name);
  });

  it.each([
    ["https://example.org/team/Shop.git", "shop"],
    ["git@example.org:shop.git", "shop"],
    ["ssh://git@example.org/a/b/", "b"],
  ])("the repository %s gives the app name %s", (text, name) => {
    expect(appNameFromRepository(text)).toBe(name);
  });

  it.each([
    ["FROM a\nEXPOSE 80", 80],
    ["FROM a\nexpose 53/udp 8080/tcp", 8080],
    ["FROM a\nEXPOSE 1\nFROM b\nEXPOSE 2 3", 2],
    ["FROM a\nEXPOSE 1\nFROM b", undefined],
    ["FROM a\nEXPOSE $PORT", undefined],
    ["FROM a\nEXPOSE \\\n  81", 81],
    ["FROM a\n# EXPOSE 82", undefined],
    ["FROM a\nEXPOSE 70000", undefined],
  ])("the image of the Dockerfile %j listens on port %s", (dockerfile, port) => {
    expect(parseExposedPort(dockerfile)).toBe(port);
  });
});
