import { realpathSync } from "node:fs";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { busyboxRoot, hasImage, importImage } from "../../scripts/base-image.mjs";
import { which } from "../../scripts/engine.mjs";
import { systemClock } from "../../src/base/clock.ts";
import { INSTANCE } from "../../src/controller/labels.ts";
import { DockerRuntime } from "../../src/controller/runtime/docker-runtime.ts";
import { chooseDockerfile } from "../../src/resources/recipe/choose-dockerfile.ts";
import { listSource } from "../../src/source-tree/list-source.ts";
import { packSource } from "../../src/source-tree/pack-source.ts";
import { TreeReader } from "../../src/source-tree/tree-reader.ts";
import { dockerClient, dockerHost, testLabels } from "../support/engine.ts";
import { sweep } from "../support/engine-runs.ts";
import { randomInstance } from "../support/random-instance.ts";
import { WAIT_OPTIONS } from "../support/wait-limits.ts";

/** An image with this machine's Node and Caddy, a shell, and substitutes for package managers and compilers. */
const BASE = "berth.test/recipe-base:1";

/** A long time limit: the classic builder copies the base image's hundred megabytes in each step. */
const SLOW = { timeout: 240_000 };

const signal = new AbortController().signal;
const instance = randomInstance();
const docker = dockerClient();
const runtime = new DockerRuntime({ host: dockerHost(), clock: systemClock });
let dir = "";

/** A shell script that replaces a build tool, and only appends the tool's name and arguments to the file `/calls`. */
const recordingScript = '#!/bin/sh\necho "$(basename $0) $*" >> /calls\n';
/** The program that the scripts for `go` and `python` create. */
const server =
  "#!/bin/sh\nmkdir -p /tmp/w; echo made > /tmp/w/index.html; exec httpd -f -p $PORT -h /tmp/w\n";
const compiler = `${recordingScript}[ "$1" = build ] || exit 0\nmkdir -p /out; printf '%s' '${server}' > /out/app; chmod 755 /out/app\n`;
const python = `${recordingScript}[ "$2" = venv ] || exit 0\nmkdir -p /venv/bin; cp /bin/pip /venv/bin/pip; printf '%s' '${server}' > /venv/bin/gunicorn; chmod 755 /venv/bin/gunicorn\n`;
const builder = `${recordingScript}[ "$2" = build ] && mkdir -p dist && echo built > dist/index.html; true\n`;

beforeAll(async () => {
  if (await hasImage(dockerHost(), BASE)) return;
  const [root, caddy] = [busyboxRoot(), which("caddy")];
  if (!root || !caddy)
    throw new Error("the tests need busybox and caddy: apt-get install busybox-static caddy");
  root
    .program(realpathSync(process.execPath), "bin/node")
    .program(realpathSync(caddy), "bin/caddy");
  for (const name of ["basename", "chmod"]) root.link(`bin/${name}`, "busybox");
  for (const name of ["pip", "uv", "poetry", "corepack", "pnpm", "yarn"])
    root.file(`bin/${name}`, recordingScript, 0o755);
  root
    .file("bin/npm", builder, 0o755)
    .file("bin/python", python, 0o755)
    .file("bin/go", compiler, 0o755);
  await importImage(dockerHost(), BASE, root, ["ENV PATH=/bin"]);
});

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "berth-recipe-"));
});

afterEach(async () => {
  await rm(dir, { recursive: true, force: true });
  // Only images of this test's instance are removed: other images with the label of the test run belong to concurrent
  // tests.
  await sweep(docker, `${INSTANCE}=${instance}`);
  for (const image of await runtime.listImages({ instance }, signal))
    await runtime.removeImage(image.id, signal);
});

afterAll(async () => {
  await runtime[Symbol.asyncDispose]();
});

async function write(files: Readonly<Record<string, unknown>>): Promise<void> {
  for (const [path, content] of Object.entries(files)) {
    await mkdir(dirname(join(dir, path)), { recursive: true });
    await writeFile(
      join(dir, path),
      typeof content === "string" ? content : JSON.stringify(content),
    );
  }
}

/** Builds an image of a folder, as a deploy does. */
async function build(
  replace: (text: string) => string = (text) => text,
  folder = dir,
): Promise<string> {
  const tree = await listSource(folder, { bytesMax: 2 ** 20, filesMax: 1000 }, signal);
  const chosen = await chooseDockerfile(new TreeReader(tree), { baseImage: BASE });
  const added = new Map([[chosen.path, replace(chosen.text)]]);
  const { imageId } = await runtime.buildImage(
    packSource(tree, { added, mtimeMs: Date.now() }, signal),
    {
      tag: `berth-${instance}/recipe:1`,
      dockerfile: chosen.path,
      args: {},
      builder: "classic",
      auths: [],
    },
    () => {},
    signal,
  );
  return imageId;
}

/** Runs a container of the image with another PORT than the program's default. */
async function run(Image: string) {
  const container = await docker.createContainer({
    Image,
    Env: ["PORT=4321"],
    Labels: { ...testLabels(), [INSTANCE]: instance },
    ExposedPorts: { "4321/tcp": {} },
    HostConfig: {
      PortBindings: { "4321/tcp": [{ HostIp: "127.0.0.1", HostPort: "0" }] },
      Init: false,
    },
  });
  await container.start();
  const { NetworkSettings } = await container.inspect();
  const port = NetworkSettings.Ports["4321/tcp"]?.[0]?.HostPort;
  // The engine's proxy accepts connections before the container listens, and may keep them open for minutes. So each
  // request has a time limit.
  const get = (path: string) =>
    fetch(`http://127.0.0.1:${port}${path}`, { signal: AbortSignal.timeout(5_000) });
  await expect
    .poll(
      () =>
        get("/").then(
          () => true,
          () => false,
        ),
      WAIT_OPTIONS,
    )
    .toBe(true);
  const body = (path: string) => get(path).then((answer) => answer.text());
  return { container, get, body };
}

describe("the image of a generated Dockerfile", SLOW, () => {
  const app = `const { createServer } = require("node:http");
const { readdirSync, writeFileSync } = require("node:fs");
writeFileSync("written.txt", "by the app itself");
const facts = () => ({ uid: process.getuid(), node: process.env.NODE_ENV, files: readdirSync(".") });
createServer((_, answer) => answer.end(JSON.stringify(facts()))).listen(process.env.PORT, process.env.HOST);
process.on("SIGTERM", () => process.exit(7));
`;

  test("runs a Node app without packages as its own user, in its folder, and exits on SIGTERM", async () => {
    await write({
      "package.json": { scripts: { start: "node server.js" } },
      "server.js": app,
      ".env": "TOKEN=secret",
      "node_modules/left/index.js": "",
    });
    const { container, body } = await run(await build());
    expect(JSON.parse(await body("/"))).toEqual({
      uid: 1000,
      node: "production",
      files: ["Dockerfile", "package.json", "server.js", "written.txt"],
    });
    await container.stop({ t: 20 });
    expect((await container.inspect()).State.ExitCode).toBe(7);
  });

  test("contains a Node app whose packages another stage has installed, and the app's user owns its folder", async () => {
    await write({
      "package.json": {
        scripts: { start: "node server.js", build: "x" },
        dependencies: { a: "1" },
      },
      "package-lock.json": "{}",
      "server.js": app,
    });
    const { body } = await run(await build());
    expect(JSON.parse(await body("/"))).toMatchObject({
      uid: 1000,
      files: expect.arrayContaining(["dist", "written.txt"]),
    });
  });

  test("serves a static site with folders and short names, a page for missing files, and no hidden files", async () => {
    await write({
      "index.html": "<h1>home</h1>",
      "about.html": "about",
      "docs/index.html": "docs",
      "404.html": "not here",
      ".htpasswd": "secret",
      ".well-known/security.txt": "contact",
    });
    const { get, body } = await run(await build());
    expect(await body("/")).toBe("<h1>home</h1>");
    expect(await body("/about")).toBe("about");
    expect(await body("/docs/")).toBe("docs");
    expect(await body("/.well-known/security.txt")).toBe("contact");
    expect((await get("/")).headers.get("content-type")).toContain("text/html");
    for (const path of ["/none", "/.htpasswd", "/Dockerfile"]) {
      const missing = await get(path);
      expect([missing.status, await missing.text()]).toEqual([404, "not here"]);
    }
  });

  test("serves the index.html of built pages for every path that is not a file", async () => {
    await write({
      "package.json": { scripts: { build: "vite build" }, devDependencies: { vite: "7" } },
      "package-lock.json": "{}",
    });
    const image = await build((text) => text.replace("FROM caddy:2-alpine", `FROM ${BASE}`));
    const { get, body } = await run(image);
    expect(await body("/")).toBe("built\n");
    expect((await get("/cart/7")).status).toBe(200);
  });

  test.each([
    ["examples/node-app", "/shop", "hello from Node"],
    ["examples/static-site", "/about", "found at <code>/about</code>"],
  ])("the app %s serves its page %s", async (folder, path, text) => {
    const image = await build(undefined, join(import.meta.dirname, "../..", folder));
    const { body } = await run(image);
    expect(await body(path)).toContain(text);
  });

  test.each<[what: string, files: Readonly<Record<string, unknown>>]>([
    ["Python with pip", { "requirements.txt": "flask\n", "app.py": "app = Flask(__name__)" }],
    [
      "Python with uv",
      {
        "pyproject.toml": '[project]\nname = "a"\n[build-system]\nrequires = []',
        "uv.lock": "",
        "app.py": "app = Flask(__name__)",
      },
    ],
    [
      "Python with Poetry",
      { "pyproject.toml": '[tool.poetry]\nname = "a"', "app.py": "app = Flask(__name__)" },
    ],
    ["Go", { "go.mod": "module a\n", "go.sum": "x", "main.go": "package main" }],
  ])(
    "contains an app in %s that was installed with the language's own tools, which the test replaces by substitutes",
    async (_, files) => {
      await write(files);
      const { body } = await run(await build());
      expect(await body("/")).toBe("made\n");
    },
  );
});
