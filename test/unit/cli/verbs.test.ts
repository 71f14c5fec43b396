import { readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { parse } from "yaml";
import { systemClock } from "../../../src/base/clock.ts";
import { displayWidth } from "../../../src/cli/output/display-width.ts";
import { APP_FINALIZER } from "../../../src/resources/resource.ts";
import {
  appStatus,
  condition,
  openTestApi,
  putApp,
  type TestApi,
} from "../../support/api-harness.ts";
import { type CliOptions, type CliResult, runCommandLine } from "../../support/run-cli.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";

let api: TestApi;
let url: string;
let folder: string;

beforeEach(async () => {
  api = await openTestApi({ clock: systemClock });
  url = await api.listen();
  folder = temporaryFolder("cli");
});
afterEach(async () => {
  await api[Symbol.asyncDispose]();
});

/** Runs one command line against the server of this test. */
function run(commandLine: string, options: CliOptions = {}): Promise<CliResult> {
  return runCommandLine(commandLine.split(" "), {
    workingDirectory: folder,
    ...options,
    environment: {
      BERTH_URL: url,
      BERTH_TOKEN: api.token("admin"),
      XDG_CONFIG_HOME: join(folder, "config"),
      ...options.environment,
    },
  });
}

async function done(commandLine: string, options: CliOptions = {}): Promise<string> {
  const result = await run(commandLine, options);
  expect({ ...result, output: "" }).toMatchObject({ code: 0 });
  return result.output;
}

function file(name: string, text: string): void {
  writeFileSync(join(folder, name), text);
}

function manifest(name: string, spec = "image: bb:1, port: 80"): string {
  return `apiVersion: berth.dev/v1\nkind: App\nmetadata: { name: ${name}, labels: { team: ${name} } }\nspec: { ${spec} }\n`;
}

/** Sets the status that the reconciler writes for a running app. */
function makeReady(name: string): void {
  const app = api.store.get("App", name);
  if (!app) throw new Error(`there is no app ${name}`);
  const { uid, generation } = app.metadata;
  api.store.setStatus("App", name, uid, appStatus(generation));
}

const generationOf = (name: string) => api.store.get("App", name)?.metadata.generation ?? 0;

/** Waits until the generation of the app exceeds `after`. Then makes it Ready with an image that no registry has. */
async function makeReadyWithLocalImage(name: string, after: number): Promise<void> {
  await expect.poll(() => generationOf(name)).toBeGreaterThan(after);
  const image = {
    reference: "bb:1",
    id: "sha256:1",
    digest: null,
    isEngineOnly: true,
    hold: null,
    deployedAt: null,
    restartedAt: null,
  };
  const status = appStatus(generationOf(name));
  const { uid = "" } = api.store.get("App", name)?.metadata ?? {};
  api.store.setStatus("App", name, uid, { ...status, memory: { ...status.memory, image } });
}

describe("berth get", () => {
  it("lists apps as a table, a wide table, names, JSON and YAML", async () => {
    putApp(api.store, "hello");
    putApp(api.store, "world");
    makeReady("hello");
    const [head, hello, world] = (await done("get apps")).split("\n");
    expect(head).toMatch(/^NAME +STATUS +READY +IMAGE +URL +AGE$/);
    expect(hello).toMatch(/^hello +running +yes +bb:1 +http:\/\/127\.0\.0\.1:20000 +\S+$/);
    expect(world).toMatch(/^world +pending +no +bb:1 +- +\S+$/);
    expect(await done("get a -o wide")).toContain("MANAGED BY");
    expect(await done("get app -o name")).toBe("app/hello\napp/world\n");
    const list = JSON.parse(await done("get apps -o json"));
    expect(list).toMatchObject({ kind: "List", items: [{ kind: "App" }, { kind: "App" }] });
    expect(parse(await done("get app hello -o yaml"))).toMatchObject({
      metadata: { name: "hello" },
      status: { phase: "running" },
    });
    expect(await done("get")).toBe(await done("get apps"));
  });

  it("accepts kinds in every form, several names and KIND/NAME", async () => {
    putApp(api.store, "hello");
    putApp(api.store, "world");
    await done("secrets set db a=1");
    expect(await done("get apps world hello -o name")).toBe("app/world\napp/hello\n");
    expect(await done("get app/hello secret/db -o name")).toBe("app/hello\nsecret/db\n");
    expect(await done("get Apps hello -o name")).toBe("app/hello\n");
  });

  it("filters by labels", async () => {
    file("all.yaml", [manifest("a"), manifest("b"), manifest("c")].join("---\n"));
    await done("apply -f all.yaml");
    expect(await done("get apps -l team=a -o name")).toBe("app/a\n");
    expect(await done("get apps -l team!=a -o name")).toBe("app/b\napp/c\n");
    expect(await done("get apps -l team,!other -l team!=b -o name")).toBe("app/a\napp/c\n");
    expect((await run("get apps -l team=x")).errors).toContain("no app has these labels");
    expect((await run("get apps -l =x")).code).toBe(2);
  });

  it("exports a manifest that can be applied without a change", async () => {
    file("a.yaml", manifest("a"));
    await done("apply -f a.yaml");
    file("copy.yaml", await done("get app a -o yaml --export"));
    expect(await done("apply -f copy.yaml")).toBe("app/a unchanged\n");
  });

  it("suggests the nearest kind, and reports a missing resource", async () => {
    const wrong = await run("get secrts");
    expect(wrong.code).toBe(2);
    expect(wrong.errors).toContain('there is no kind "secrts"; did you mean "secrets"?');
    const missing = await run("get app nope");
    expect(missing.code).toBe(1);
    expect(missing.errors).toMatch(/error: there is no App "nope"\ntry: +`berth get KIND` lists/);
  });

  it("follows changes and deletions, one line each", async () => {
    putApp(api.store, "hello");
    let step = 0;
    const ended = run("get apps -w", {
      onOutput(soFar) {
        const steps = [
          { sees: /hello +pending/, does: () => makeReady("hello") },
          { sees: /hello +running/, does: () => putApp(api.store, "second") },
          { sees: /second +pending/, does: () => void api.server.close() },
        ];
        if (steps[step]?.sees.test(soFar)) steps[step++]?.does();
      },
    });
    const { output, errors } = await ended;
    expect(step).toBe(3);
    expect(output.match(/hello +running/g)).toHaveLength(1);
    expect(errors).toContain("the server has ended the stream");
  });
});

describe("berth apply, diff and validate", () => {
  it("apply creates a new resource, reports an unchanged one, and updates a changed one", async () => {
    file("a.yaml", manifest("a"));
    expect(await done("apply -f a.yaml")).toBe("app/a created\n");
    expect(await done("apply a.yaml")).toBe("app/a unchanged\n");
    file("a.yaml", manifest("a", "image: bb:2, port: 80"));
    expect(await done("apply -f a.yaml")).toBe("app/a configured\n  ~ spec.image: bb:1 -> bb:2\n");
    expect(api.store.get("App", "a")?.spec.image).toBe("bb:2");
  });

  it("change nothing with --dry-run, and show the plan", async () => {
    const output = await done("apply -f - --dry-run", { input: manifest("a") });
    expect(output).toContain("app/a created (dry run)\n");
    expect(output).toContain("  + spec.image: bb:1\n");
    expect(output).toContain("    1. createContainer a-1  (missing)\n");
    expect(api.store.list("App")).toEqual([]);
  });

  it("read folders without hidden files, and refuse a resource that two files declare", async () => {
    file("a.yaml", manifest("a"));
    file("b.json", JSON.stringify(parse(manifest("b"))));
    file(".hidden.yaml", "nonsense: [");
    file("notes.txt", "nothing");
    expect(await done("apply -f .")).toBe("app/a created\napp/b created\n");
    file("c.yaml", manifest("a"));
    const twice = await run("apply -f .");
    expect(twice.code).toBe(1);
    expect(twice.errors).toContain('c.yaml:1:1: App "a" is already declared in a.yaml:1');
  });

  it("apply all resources or none, and report each problem with its line", async () => {
    file("good.yaml", manifest("good"));
    file(
      "bad.yaml",
      "apiVersion: berth.dev/v1\nkind: App\nmetadata: { name: bad }\nspec:\n  imag: x\n",
    );
    const result = await run("apply -f .");
    expect(result.code).toBe(1);
    expect(result.errors).toMatch(/bad\.yaml:5:3: .*"imag".*did you mean "image"/);
    expect(api.store.list("App")).toEqual([]);
    const valid = await run("validate -f .", { environment: { BERTH_URL: "http://127.0.0.1:9" } });
    expect(valid.code).toBe(1);
    expect(valid.output).toBe("good.yaml:1: app/good valid\n");
    expect(valid.errors).toMatch(/bad\.yaml:5:3: /);
    expect((await run("validate -q -f good.yaml")).output).toBe("");
  });

  it("refuse a manifest with the status that `berth get -o yaml` prints, and suggest --export", async () => {
    file("a.yaml", manifest("a"));
    await done("apply -f a.yaml");
    file("pasted.yaml", await done("get app a -o yaml"));
    expect((await run("apply -f pasted.yaml")).errors).toContain("--export");
  });

  it("diff exits with 0, 1 or 2, like diff(1)", async () => {
    file("a.yaml", manifest("a"));
    const created = await run("diff -f a.yaml");
    expect(created.code).toBe(1);
    expect(created.output).toContain("app/a (new)\n");
    await done("apply -f a.yaml");
    expect(await run("diff -f a.yaml")).toMatchObject({ code: 0, output: "" });
    expect((await run("diff -f nowhere.yaml")).code).toBe(2);
    expect(
      (await run("diff -f a.yaml", { environment: { BERTH_URL: "http://127.0.0.1:9" } })).code,
    ).toBe(2);
    expect((await run("diff")).code).toBe(2);
  });

  it("wait until apps are ready, and show why one is not", async () => {
    file("a.yaml", manifest("a"));
    const waiting = run("apply -f a.yaml --wait", {
      onOutput: (soFar) => {
        if (soFar === "app/a created\n") makeReady("a");
      },
    });
    expect((await waiting).output).toBe("app/a created\nthe app is ready\n");

    const failing = await run("apply -f - --wait", {
      input: manifest("a", "image: bb:3, port: 80"),
      onOutput: (soFar) => {
        if (!soFar.startsWith("app/a configured")) return;
        const { uid, generation } = api.store.get("App", "a")?.metadata ?? {
          uid: "",
          generation: 0,
        };
        api.store.setStatus(
          "App",
          "a",
          uid,
          appStatus(generation, {
            phase: "failed",
            conditions: [
              condition("Ready", "False", generation),
              condition("Stalled", "True", generation, { message: "exit code 7" }),
            ],
          }),
        );
      },
    });
    expect(failing.code).toBe(1);
    expect(failing.errors).toMatch(
      /app "a" has failed: exit code 7\ntry: +`berth describe a` and `berth logs a`/,
    );
  });

  it("wait by default for a new app, and say which version serves if a deploy fails", async () => {
    const created = run("create web --image bb:1 --port 80");
    await expect.poll(() => api.store.get("App", "web")).toBeDefined();
    makeReady("web");
    const { code, output, errors } = await created;
    expect({ code, output }).toEqual({
      code: 0,
      output: "app/web is running at http://127.0.0.1:20000\n",
    });
    expect(errors).toContain("app/web created");
    const failing = run("deploy web --image bb:2");
    await expect.poll(() => api.store.get("App", "web")?.spec.image).toBe("bb:2");
    const { uid = "", generation = 0 } = api.store.get("App", "web")?.metadata ?? {};
    const status = appStatus(generation, { phase: "degraded" });
    api.store.setStatus("App", "web", uid, {
      ...status,
      revisions: { attempted: 2, applied: 1, stable: 1 },
      containers: [
        {
          id: "c1",
          name: "web-1",
          replica: 0,
          generation: 1,
          role: "active",
          state: "running",
          healthy: true,
          exitCode: null,
          startedAt: null,
          image: "bb:1",
          imageId: "sha256:1",
          address: null,
        },
      ],
      conditions: [condition("Ready", "False", generation, { reason: "Reverted", message: "bad" })],
    });
    expect((await failing).errors).toContain(
      'app "web" has failed: bad; revision 1 still serves at http://127.0.0.1:20000',
    );
  });

  it("say that no registry has the image of a new, a deployed or a restarted app", async () => {
    const note =
      "no registry has bb:1: app/web runs the image of that name that is stored on this engine only";
    const created = run("create web --image bb:1 --port 80");
    await makeReadyWithLocalImage("web", 0);
    expect((await created).errors).toContain(note);

    for (const verb of ["deploy web --image bb:1", "restart web --wait"]) {
      const before = generationOf("web");
      const waiting = run(verb);
      await makeReadyWithLocalImage("web", before);
      const { code, output, errors } = await waiting;
      expect(code).toBe(0);
      expect(output).toContain("app/web is running at http://127.0.0.1:20000");
      expect(errors).toContain(note);
    }
  });

  it("report that no container engine answers, also if the output is a pipe", async () => {
    const connected = api.control.engineState;
    const create = "create web --image bb:1 --timeout 50ms";
    expect((await run(create)).errors).not.toContain("container engine");
    api.control.engineState = { connected: false, message: "connection refused" };
    const late = await run("deploy web --image bb:2 --timeout 50ms");
    expect([late.code, late.errors]).toEqual([
      3,
      expect.stringContaining("app/web waits for the container engine, which does not answer"),
    ]);
    api.control.engineState = connected;
  });

  it.each([
    ["create web --image bb:1", () => makeReady("web")],
    ["delete web --wait", () => api.store.removeFinalizer("App", "web", APP_FINALIZER)],
  ] as const)(
    'the command "%s" reports that the engine has become unreachable during the wait, and that it answers again, even if its output is a pipe',
    async (verb, finish) => {
      if (verb.startsWith("delete")) putApp(api.store, "web");
      const connected = api.control.engineState;
      let errors = "";
      const waiting = run(verb, {
        onErrors: (soFar) => {
          errors = soFar;
        },
      });
      const isWaiting = () => {
        const app = api.store.get("App", "web");
        return (
          app !== undefined &&
          (verb.startsWith("create") || app.metadata.deletionTimestamp !== null)
        );
      };
      await expect.poll(isWaiting).toBe(true);
      // The reconciler writes a status for every app when the engine goes away or returns.
      const expectNote = async (note: string) => {
        let written = 0;
        await expect
          .poll(() => {
            const { uid = "", generation = 0 } = api.store.get("App", "web")?.metadata ?? {};
            written += 1;
            const unknown = condition("Ready", "Unknown", generation, {
              message: `try ${written}`,
            });
            const status = appStatus(generation, { phase: "unknown", conditions: [unknown] });
            api.store.setStatus("App", "web", uid, status);
            return errors;
          })
          .toContain(note);
      };
      expect(errors).not.toContain("container engine");
      api.control.engineState = { connected: false, message: "connection refused" };
      await expectNote("app/web waits for the container engine, which does not answer");
      api.control.engineState = connected;
      await expectNote("the container engine answers again");
      finish();
      expect((await waiting).code).toBe(0);
    },
  );

  it("exit with 3 after a timeout", async () => {
    const late = await run("apply -f - --wait --timeout 50ms", { input: manifest("a") });
    expect(late.code).toBe(3);
    expect(late.errors).toContain('app "a" is not ready after 0s: pending');
  });
});

describe("verbs that create, change or delete an app", () => {
  it("start, stop and deploy an app, and report if there is nothing to do", async () => {
    putApp(api.store, "hello");
    expect(await done("start hello")).toBe("app/hello already runs\n");
    expect(await done("stop app/hello")).toBe("app/hello is stopping\n");
    expect(api.store.get("App", "hello")?.spec.running).toBe(false);
    expect(await done("stop hello")).toBe("app/hello is already stopped\n");
    expect(await done("start hello -o name")).toBe("app/hello\n");
    expect(await done("deploy hello --image bb:2 --no-wait")).toBe("app/hello is deploying bb:2\n");
    // The same tag is deployed again, because it may point to another image by now.
    expect(await done("deploy hello --image bb:2 --no-wait")).toBe("app/hello is deploying bb:2\n");
    expect(await done("restart hello")).toBe("app/hello is restarting\n");
    expect(JSON.parse(await done("retry hello -o json"))).toMatchObject({ name: "hello" });
  });

  it("change nothing in a dry run", async () => {
    putApp(api.store, "hello");
    const output = await done("deploy hello --image bb:2 --dry-run");
    expect(output).toContain("~ spec.image: bb:1 -> bb:2");
    expect(api.store.get("App", "hello")?.spec.image).toBe("bb:1");
  });

  it("suggest --force if a spec file owns the field", async () => {
    putApp(api.store, "hello", { image: "bb:1", port: 80 }, "file:hello.yaml");
    const refused = await run("deploy hello --image bb:2");
    expect(refused.code).toBe(1);
    expect(refused.errors).toContain("hello.yaml");
    expect(refused.errors).toContain("use --force");
    expect(refused.errors).not.toContain("?force");
    await done("deploy hello --image bb:2 --force --no-wait");
    expect(api.store.get("App", "hello")?.spec.image).toBe("bb:2");
  });

  it("create an app from an image, with variables and secrets", async () => {
    await done("secrets set db password=x");
    await done(
      "create web --no-wait --image bb:1 --port 80 --domain web.test -e A=b=c -e P=secret:db/password --label team=x",
    );
    expect(api.store.get("App", "web")).toMatchObject({
      metadata: { labels: { team: "x" } },
      spec: {
        image: "bb:1",
        port: 80,
        domain: "web.test",
        env: { A: "b=c", P: { secret: "db", key: "password" } },
      },
    });
    expect((await run("create web --image bb:1")).errors).toContain("web");
    for (const line of [
      "create web",
      "create web --image a --template b",
      "create web --template b --port 80",
      "create web --image a -p x=y",
      "create web --image a --port 99999",
      "create web --image a -e novalue",
    ])
      expect(await run(line)).toMatchObject({ code: 2 });
  });

  it("delete an app, and ask before deleting data", async () => {
    putApp(api.store, "hello");
    putApp(api.store, "other");
    expect(await done("delete hello --dry-run")).toContain("would delete");
    expect(api.store.get("App", "hello")?.metadata.deletionTimestamp).toBeNull();
    const refused = await run("delete hello --volumes");
    expect(refused).toMatchObject({ code: 2 });
    expect(refused.errors).toContain("--yes");
    expect(await done("delete hello other --volumes --yes")).toBe(
      "app/hello deleting\napp/other deleting\n",
    );
    expect((await run("delete nope")).code).toBe(1);
    expect(await done("delete nope --ignore-not-found")).toBe("app/nope does not exist\n");
    expect((await run("delete")).code).toBe(2);
    expect((await run("delete hello --wait --timeout 50ms")).code).toBe(3);
  });

  it("delete an app of a template, and list the resources that stay", async () => {
    const labels = { "berth.dev/part-of": "blog" };
    const volumes = [{ name: "data", path: "/data" }];
    for (const name of ["blog", "blog-db"]) {
      const payload = { name, image: "bb:1", labels, volumes };
      await api.request({ method: "POST", url: "/api/apps", payload });
    }
    const { errors, code } = await run("delete blog --yes");
    expect(code).toBe(0);
    expect(errors).toContain("stays: app/blog-db; delete them with `berth delete app/blog-db`");
    expect(errors).toContain("stays: the volume data of blog, with all data");
    expect((await run("delete blog-db --yes --volumes")).errors).not.toContain("with all data");
  });

  it("delete the resources of a file, and wait until they are removed", async () => {
    file("a.yaml", manifest("a"));
    await done("apply -f a.yaml");
    const { output, code } = await run("delete -f a.yaml --wait", {
      onOutput: (soFar) => {
        if (soFar === "app/a deleting\n")
          for (const finalizer of api.store.get("App", "a")?.metadata.finalizers ?? [])
            api.store.removeFinalizer("App", "a", finalizer);
      },
    });
    expect({ output, code }).toEqual({ output: "app/a deleting\napp/a is gone\n", code: 0 });
  });
});

describe("berth edit", () => {
  it("applies the saved text, and keeps a copy in a file if the server refuses the text", async () => {
    putApp(api.store, "hello");
    const edit = (EDITOR: string) => run("edit hello", { environment: { EDITOR } });
    expect((await edit("sed -i s/80/81/")).output).toBe(
      "app/hello configured\n  ~ spec.port: 80 -> 81\n",
    );
    expect((await edit("true")).output).toBe("app/hello unchanged\n");
    const wrong = await edit("sed -i s/port/prot/");
    expect(wrong.code).toBe(1);
    expect(wrong.errors).toMatch(/:\d+:3: .*"prot".*did you mean "port"/);
    const kept = /your text is kept in (\S+)/.exec(wrong.errors)?.[1] ?? "";
    expect(readFileSync(kept, "utf8")).toContain("prot: 81");
    rmSync(dirname(kept), { recursive: true });
    expect((await edit("false")).errors).toContain("set EDITOR");
    expect((await run("edit secret db")).errors).toContain("berth secrets set db");
  });
});

describe("secrets in the command line", () => {
  it("are set by value, file and standard input, and never shown", async () => {
    file("key.pem", "line 1\nline 2\n");
    const made = await done("secrets set db user=me key=@key.pem password=-", {
      input: "s3cret\n",
    });
    expect(made).toBe("secret/db created with 3 values\n");
    expect(api.store.secrets.reveal("db")).toEqual({
      user: "me",
      key: "line 1\nline 2\n",
      password: "s3cret",
    });
    const shown =
      (await done("secrets")) +
      (await done("describe secret db")) +
      (await done("get secret db -o yaml"));
    expect(shown).toContain("password");
    expect(shown).not.toContain("s3cret");
    await done("secrets set db user=you");
    expect(api.store.secrets.reveal("db")).toMatchObject({ user: "you", password: "s3cret" });
    await done("secrets rm db key");
    expect(api.store.secrets.reveal("db")).toEqual({ user: "you", password: "s3cret" });
    await done("secrets set db --replace only=1");
    expect(api.store.secrets.reveal("db")).toEqual({ only: "1" });
    expect((await run("secrets rm db nokey")).errors).toContain("no key nokey");
    await done("secrets rm db");
    expect(api.store.list("Secret")).toEqual([]);
  });

  it("lose single values with unset, and get no value from an empty standard input", async () => {
    await done("secrets set db a=1 b=2");
    expect(await done("secrets unset db a")).toBe("secret/db: a deleted\n");
    expect(api.store.secrets.reveal("db")).toEqual({ b: "2" });
    expect((await run("secrets unset db")).code).toBe(2);
    const empty = await run("secrets set db b=-", { input: "\n" });
    expect(empty.code).toBe(2);
    expect(empty.errors).toContain("standard input is empty, so b would have an empty value");
    await done("secrets set db b=");
    expect(api.store.secrets.reveal("db")).toEqual({ b: "" });
  });

  it("of type registry keep their type", async () => {
    await done("secrets set hub --type registry server=ghcr.io username=me password=p");
    expect(await done("secrets ls")).toMatch(/hub +registry/);
    expect((await run("secrets set hub --type opaque a=1")).code).toBe(2);
  });

  it("must be given as pairs, and the named files must exist", async () => {
    expect((await run("secrets set db novalue")).code).toBe(2);
    expect((await run("secrets set db a=@nowhere")).errors).toContain("cannot read nowhere");
    const binary = await run("secrets set db a=-", { input: new Uint8Array([0xff, 0xfe, 0]) });
    expect(binary.errors).toContain("not UTF-8");
  });
});

describe("verbs that show or save state or manage tokens", () => {
  it.each([80, 40])("fit their tables into %i columns", async (columns) => {
    const { uid, generation } = putApp(api.store, "hello");
    api.store.revisions.ensure({
      app: "hello",
      generation,
      specHash: "a",
      spec: { image: "registry.example.org/team/hello:1.2.3" },
      image: "registry.example.org/team/hello:1.2.3",
      imageId: null,
    });
    const container = {
      id: "1",
      name: "berth-405e509d-hello-1234abcd-0",
      replica: 0,
      generation,
      role: "active",
      state: "running",
      healthy: true,
      exitCode: null,
      startedAt: "2030-01-01T00:00:00Z",
      image: "bb:1",
      imageId: "sha256:1",
      address: "10.213.104.200:8080",
    } as const;
    api.store.setStatus("App", "hello", uid, appStatus(generation, { containers: [container] }));
    const message = "requests go to 1 container of the new version, and the old one drains";
    api.store.events.record({
      kind: "App",
      name: "hello",
      type: "Warning",
      reason: "Switched",
      message,
    });
    for (const verb of ["describe hello", "get apps", "events", "events hello"]) {
      const lines = (await done(verb, { columns })).split("\n");
      // `berth describe` prints fields before its tables. The terminal may wrap long fields, so the test measures only
      // the lines from the first table on.
      const first = Math.max(
        0,
        lines.findIndex((line) => line.includes("Conditions:")),
      );
      expect(lines.slice(first).filter((line) => displayWidth(line) > columns)).toEqual([]);
    }
    expect(await done("describe hello")).toContain("GENERATION   ADDRESS               STARTED");
    expect(await done("get apps -o wide", { columns })).toContain("IMAGE");
  });

  it("describe an app with conditions, containers, revisions and events", async () => {
    putApp(api.store, "hello");
    makeReady("hello");
    api.store.events.record({
      kind: "App",
      name: "hello",
      type: "Warning",
      reason: "Odd",
      message: "was odd",
    });
    const text = await done("describe hello");
    for (const part of [
      "Name:",
      "Status:      running, ready",
      "Spec:\n  image: bb:1",
      "Conditions:",
      "Ready   True",
      "Containers:\n  none",
      "Odd",
      "was odd",
    ])
      expect(text).toContain(part);
    expect(await done("describe app hello")).toBe(text);
    expect(await done("describe app/hello")).toBe(text);
  });

  it("show text of servers, files and apps with control characters as escapes", async () => {
    const { uid } = putApp(api.store, "web");
    const message = "bad \u001b]0;title\u0007 \u202etxt";
    const ready = condition("Ready", "False", 1, { message });
    api.store.setStatus("App", "web", uid, appStatus(1, { conditions: [ready] }));
    const pruned = { kind: "App" as const, name: "web", file: "a\u001b[2J.yaml\nb.yaml" };
    const pendingPrune = [pruned];
    api.control.specsReport = { ...api.control.specsReport, pendingPrune };
    const outputs = [];
    for (const line of ["describe web", "get apps -o yaml", "get apps -o json", "prune", "specs"])
      outputs.push(await done(line));
    for (const output of outputs) expect(output).not.toMatch(/[^\P{Cc}\n]|\u202e/u);
    expect(outputs[0]).toContain("bad \\u001b]0;title\\u0007 \\u202etxt");
    expect(JSON.parse(outputs[2] ?? "").items[0].status.conditions[0].message).toBe(message);
    expect(outputs[3]).toContain("(was in a?[2J.yaml b.yaml)");
    api.control.logs = async function* () {
      yield { container: "web-1", time: "t", stream: "stdout", message: "a\u001b[2J" } as const;
    };
    expect(await done("logs web")).toBe("a\u001b[2J\n");
    expect(await done("logs web", { columns: 80 })).toBe("a\\u001b[2J\n");
  });

  it("show logs, optionally with times and containers", async () => {
    putApp(api.store, "hello");
    api.control.logs = async function* () {
      yield { time: "2030-01-01T00:00:00.000Z", stream: "stdout", message: "one", container: "c1" };
      yield { time: "2030-01-01T00:00:01.000Z", stream: "stderr", message: "two", container: "c1" };
    };
    expect(await done("logs hello")).toBe("one\ntwo\n");
    expect(await done("logs hello --tail 5 -t --prefix")).toContain(
      "2030-01-01T00:00:01.000Z [c1] two\n",
    );
    expect(api.control.logOptions.at(-1)).toMatchObject({ tail: 5, follow: false });
    expect(await done("logs hello -f")).toBe("one\ntwo\n");
    api.control.logs = async function* () {
      yield { skipped: 12, container: "c1" };
      yield {
        time: "2030-01-01T00:00:02.000Z",
        stream: "stdout",
        message: "last",
        container: "c1",
      };
    };
    const slow = await run("logs hello -f");
    expect(slow.output).toBe("last\n");
    expect(slow.errors).toContain("12 lines of c1 skipped");
    expect((await run("logs hello --tail 0")).code).toBe(2);
    expect((await run("logs nope")).code).toBe(1);
  });

  it("show events, oldest first, and follow them without a gap", async () => {
    putApp(api.store, "hello");
    const record = (message: string) =>
      api.store.events.record({
        kind: "App",
        name: "hello",
        type: "Normal",
        reason: "Test",
        message,
      });
    record("first");
    record("second");
    const lines = (await done("events hello")).trim().split("\n");
    expect(lines[1]).toMatch(/Normal +Test +app\/hello +first$/);
    expect(lines[2]).toContain("second");
    expect((await run("events hello --warnings")).errors).toContain("no events");
    let isRecorded = false;
    const { output } = await run("events -w", {
      onOutput(soFar) {
        if (!isRecorded) {
          isRecorded = true;
          record("third");
        }
        if (soFar.includes("third")) void api.server.close();
      },
    });
    expect(output).toContain("third");
  });

  it("show the errors of spec files with file:line:column, and the deletions that wait for a confirmation", async () => {
    api.control.specsReport = {
      folder: "/srv/specs",
      state: "watching",
      message: null,
      files: [
        {
          file: "a.yaml",
          state: "applied",
          contentHash: "0".repeat(64),
          resources: [{ kind: "App", name: "a", yielded: [] }],
          errors: [],
          time: "2030-01-01T00:00:00.000Z",
        },
        {
          file: "b.yaml",
          state: "invalid",
          contentHash: "1".repeat(64),
          resources: [],
          errors: [{ line: 3, column: 5, message: "is wrong" }],
          time: "2030-01-01T00:00:00.000Z",
        },
      ],
      pendingPrune: [{ kind: "App", name: "old", file: "old.yaml" }],
    };
    const text = await done("specs");
    expect(text).toContain("/srv/specs/b.yaml:3:5: is wrong");
    expect(text).toContain("app/old (was in old.yaml)");
    expect((await run("specs --check")).code).toBe(1);
    expect(await done("prune")).toContain("berth prune --confirm");
    expect(await done("prune --confirm")).toBe("app/old deleting\n");
  });

  it("show plan, audit, status, settings, versions and models", async () => {
    await done("create hello --image bb:1 --port 80 --no-wait");
    expect(await done("plan hello")).toContain("1. createContainer hello-1  (missing)");
    expect(await done("audit hello")).toMatch(/create +app\/hello/);
    expect(await done("status")).toMatch(/Apps: +1, of which 0 ready/);
    expect(await done("config")).toMatch(/password +\(secret\) +environment/);
    expect(await done("config --local")).not.toMatch(/password +\(secret\) +environment/);
    const away = await run("config", { environment: { BERTH_URL: "http://127.0.0.1:9" } });
    expect(away).toMatchObject({ code: 0, errors: expect.stringContaining("no server runs here") });
    expect(JSON.parse(await done("version -o json"))).toMatchObject({ server: "1.2.3" });
    expect(await run("models ls")).toMatchObject({ code: 0, output: "" });
    expect(parse(await done("status -o yaml"))).toMatchObject({ health: { runtime: "connected" } });
    const engine = api.control.engineState;
    const otherWriter = { host: "one", dataDir: "/srv/one", since: "2030-01-01" };
    if (engine.connected) api.control.engineState = { ...engine, otherWriter };
    expect(await done("status")).toMatch(
      /Needs attention:\n.*on one, data directory \/srv\/one, since/,
    );
    api.control.engineState = engine;
  });

  it("create tokens that the server accepts, print nothing but the token, and revoke them", async () => {
    const { output, errors } = await run("token create ci --scope read --expires-in 1h");
    expect(output).toMatch(/^\S+\n$/);
    expect(errors).toContain("shown only this once");
    const environment = { BERTH_TOKEN: output.trim() };
    expect((await run("get apps", { environment })).code).toBe(0);
    const refused = await run("create a --image bb:1", { environment });
    expect(refused.code).toBe(1);
    expect(refused.errors).toContain("wider scope");
    expect(await done("token ls")).toMatch(/ci +named +read/);
    await done("token revoke ci");
    const ended = await run("get apps", { environment });
    expect(ended.errors).toContain("berth login");
  });

  it("save a backup that only its owner can read, and replace no file", async () => {
    putApp(api.store, "hello");
    expect(await done("backup b.db")).toMatch(/^b\.db: \d/);
    const saved = join(folder, "b.db");
    expect(statSync(saved).mode & 0o777).toBe(0o600);
    expect(readFileSync(saved).subarray(0, 15).toString()).toBe("SQLite format 3");
    expect((await run("backup b.db")).errors).toContain("--force");
    await done("backup b.db --force");
    expect((await done("backup -")).slice(0, 15)).toBe("SQLite format 3");
    const printed = await done("backup b.db --force");
    expect(printed).toMatch(/contains: the store .*no source archives; no certificates/);
    expect(printed).toMatch(/leaves out:\n {2}image \S+ of hello: pulled again from its registry/);
    expect(JSON.parse(await done("backup b.db --force -o json"))).toMatchObject({
      bytes: expect.any(Number),
      instance_id: api.store.instanceId,
      left_out: expect.arrayContaining([expect.objectContaining({ kind: "image", app: "hello" })]),
    });
    expect((await run("backup - -o json")).errors).toContain("berth backup FILE -o json");
  });
});
