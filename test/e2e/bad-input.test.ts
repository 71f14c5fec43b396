import { readFile } from "node:fs/promises";
import { connect } from "node:net";
import { expect, test } from "vitest";
import { appFile, BerthProcess } from "../support/berth-process.ts";
import { SHELL } from "../support/images.ts";

test("invalid input on the socket gets a clear error, and the server keeps running", async () => {
  await using berth = await BerthProcess.open();
  const { api } = berth.ready;
  const token = (await readFile(`${berth.dataDir}/run/token`, "utf8")).trim();
  const send = async (
    method: string,
    path: string,
    body?: string | Uint8Array<ArrayBuffer>,
    headers: Readonly<Record<string, string>> = {},
  ) => {
    const response = await fetch(`${api}${path}`, {
      method,
      ...(body === undefined ? {} : { body }),
      headers: {
        authorization: `Bearer ${token}`,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...headers,
      },
    });
    return { status: response.status, text: await response.text() };
  };
  const long = "a".repeat(64);
  const deep = `${"[".repeat(100_000)}${"]".repeat(100_000)}`;
  const cases: readonly [expected: number, names: RegExp, ...request: Parameters<typeof send>][] = [
    [400, /name.*63/, "POST", "/api/apps", JSON.stringify({ name: long, image: SHELL })],
    [400, /name/, "POST", "/api/apps", JSON.stringify({ name: "Not A Name", image: SHELL })],
    [400, /name/, "POST", "/api/apps", JSON.stringify({ name: "../../etc", image: SHELL })],
    [400, /name/, "POST", "/api/apps", JSON.stringify({ name: 7, image: SHELL })],
    [400, /port/, "POST", "/api/apps", JSON.stringify({ name: "x", image: SHELL, port: 65_536 })],
    [400, /prot.*port/, "POST", "/api/apps", JSON.stringify({ name: "x", image: SHELL, prot: 80 })],
    [400, /image/, "POST", "/api/apps", JSON.stringify({ name: "x", image: "a b" })],
    [
      400,
      /"?name"?.*twice|duplicate|more than once/i,
      "POST",
      "/api/apps",
      '{"name":"x","name":"y","image":"i"}',
    ],
    [400, /JSON/, "POST", "/api/apps", "{"],
    [400, /JSON|body/, "POST", "/api/apps", ""],
    [400, /UTF-8/, "POST", "/api/apps", new Uint8Array([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x7d])],
    [400, /./, "POST", "/api/apps", deep],
    [
      400,
      /__proto__|constructor|unknown/i,
      "POST",
      "/api/apps",
      '{"__proto__":{"admin":true},"name":"x","image":"i"}',
    ],
    [
      413,
      /large|MiB|bytes/i,
      "POST",
      "/api/apps",
      JSON.stringify({ name: "x", image: "i".repeat(10_000_000) }),
    ],
    [
      415,
      /type/i,
      "POST",
      "/api/apps",
      "name=x",
      { "content-type": "application/x-www-form-urlencoded" },
    ],
    [404, /no app/, "GET", "/api/apps/%2e%2e%2f%2e%2e%2fetc%2fpasswd"],
    [404, /no app/, "GET", `/api/apps/${"b".repeat(200)}`],
    [400, /./, "GET", "/api/apps/%ff%fe"],
    [400, /./, "GET", "/api/apps/%"],
    [404, /no app/, "GET", "/api/apps/a%00b"],
    [404, /./, "GET", "/api/nothing"],
    [404, /./, "GET", "/etc/passwd"],
    [400, /tail/, "GET", "/api/apps/x/logs?tail=10001"],
    [400, /tail/, "GET", "/api/apps/x/logs?tail=-1"],
    [400, /frobnicate/, "GET", "/api/apps?frobnicate=1"],
    [401, /token/, "GET", "/api/apps", undefined, { authorization: "Bearer nonsense" }],
    [401, /./, "GET", "/api/apps", undefined, { authorization: `Basic ${"x".repeat(5_000)}` }],
    [404, /./, "GET", "/api/templates/..%2f..%2fpackage"],
    [400, /not the id/, "POST", "/api/llm/start", JSON.stringify({ model: "org/../name" })],
    [404, /no model/, "POST", "/api/llm/stop", JSON.stringify({ model: "nobody" })],
  ];
  const wrong: string[] = [];
  for (const [expected, names, ...request] of cases) {
    const { status, text } = await send(...request);
    const what = `${request[0]} ${request[1]} ${String(request[2]).slice(0, 60)} -> ${status} ${text.slice(0, 300)}`;
    if (status !== expected || !names.test(text) || !isError(text)) wrong.push(what);
    if (/\n? +at .*:\d+:\d+|node_modules|\/src\/|\/dist\/|sqlite/i.test(text))
      wrong.push(`tells too much: ${what}`);
  }
  expect(wrong).toEqual([]);

  // The connections send data that is not HTTP, endless headers, and a body that never arrives.
  const secretly = `Authorization: Bearer ${token}\r\nHost: x\r\nConnection: close\r\n\r\n`;
  for (const path of [
    "/api/apps/../../etc/passwd",
    "/api/docs/../../../etc/passwd",
    "//etc/passwd",
  ])
    expect(await raw(api, `GET ${path} HTTP/1.1\r\n${secretly}`)).toMatch(/^HTTP\/1\.1 404 /);
  expect(await raw(api, "HELO there\r\n\r\n")).toMatch(/^HTTP\/1\.1 400 [\s\S]*"error"/);
  expect(await raw(api, `GET / HTTP/1.1\r\nHost: x\r\nX: ${"y".repeat(100_000)}\r\n\r\n`)).toMatch(
    /^HTTP\/1\.1 431 [\s\S]*"error"/,
  );
  await expect.poll(() => berth.client.health()).toMatchObject({ status: "ok" });
  expect((await berth.client.apps.list()).total).toBe(0);
  expect(berth.output).not.toContain(token);
  expect(berth.output).not.toMatch(/uncaught|unhandled/i);
});

test("any invalid file in the specs folder is reported with file, line and column, and changes nothing", async () => {
  await using berth = await BerthProcess.open({
    specs: { "good.yaml": appFile("good", { image: SHELL, running: false }) },
  });
  const head = "apiVersion: berth.dev/v1\nkind: App\nmetadata: { name: bad }\n";
  const bomb = [
    "a: &a [x, x, x, x, x, x, x, x, x, x]",
    ..."bcdefghij".split("").map((key, index) => {
      const before = "abcdefghij"[index] ?? "a";
      return `${key}: &${key} [${Array.from({ length: 10 }, () => `*${before}`).join(", ")}]`;
    }),
    "spec: *j",
  ].join("\n");
  const files: Readonly<Record<string, readonly [string | Uint8Array, RegExp, number?]>> = {
    "bomb.yaml": [`${bomb}\n`, /alias/i],
    "latin1.yaml": [new Uint8Array([...Buffer.from(head), 0xe9, 0x3a, 0x20, 0x31]), /UTF-8/],
    "twice.yaml": [`${head}spec:\n  image: ${SHELL}\n  image: other\n`, /image|unique|twice/i, 6],
    "unknown.yaml": [`${head}spec:\n  imgae: ${SHELL}\n`, /imgae.*image/, 5],
    "half.yaml": [`${head}spec:\n  image: "berth.te`, /./, 5],
    "tabs.yaml": [`${head}spec:\n\timage: x\n`, /tab/i, 5],
    "name.yaml": [appFile("n".repeat(64), { image: SHELL }), /name/],
    "nobody.yaml": ["apiVersion: berth.dev/v1\nkind: Ap\nmetadata: { name: x }\n", /App/, 2],
    "list.json": ["[1, 2", /./],
    "huge.yaml": [`${head}spec:\n  image: x # ${"y".repeat(5_000_000)}\n`, /large|bytes|MiB/i],
  };
  for (const [name, [text]] of Object.entries(files)) await berth.write(name, text);
  await berth.until("every file is looked at", async () => {
    const specs = await berth.client.specs();
    return specs.files.length === Object.keys(files).length + 1;
  });
  const specs = await berth.client.specs();
  const wrong: string[] = [];
  for (const [name, [, pattern, line]] of Object.entries(files)) {
    const file = specs.files.find((it) => it.file === name);
    const error = file?.errors[0];
    if (
      file?.state !== "invalid" ||
      !error ||
      !pattern.test(error.message) ||
      (line !== undefined && error.line !== line)
    )
      wrong.push(`${name}: ${JSON.stringify(file).slice(0, 300)}`);
  }
  expect(wrong).toEqual([]);
  expect((await berth.client.apps.list()).apps.map(({ name }) => name)).toEqual(["good"]);

  const shown = await berth.cli(["specs", "--check"]);
  expect(shown.code).toBe(1);
  expect(shown.stdout).toMatch(/unknown\.yaml:5:\d+: .*imgae/);
  await berth.event("SpecInvalid");
  // The corrected file is applied, and the invalid files have deleted nothing.
  await berth.write("unknown.yaml", appFile("bad", { image: SHELL, running: false }));
  await berth.waitForApp("bad", "it is there", () => true);
  await expect.poll(() => berth.client.health()).toMatchObject({ status: "ok" });
});

function isError(text: string): boolean {
  const body: unknown = JSON.parse(text);
  return (
    typeof body === "object" &&
    body !== null &&
    Object.keys(body).join() === "error" &&
    "error" in body &&
    typeof body.error === "string"
  );
}

/** Sends bytes, and reads until the server closes the connection. */
function raw(api: string, text: string): Promise<string> {
  const { hostname, port } = new URL(api);
  return new Promise((resolve) => {
    const socket = connect(Number(port), hostname);
    let answer = "";
    socket.setEncoding("utf8").on("data", (data: string) => (answer += data));
    socket.on("error", () => {});
    socket.once("close", () => resolve(answer));
    socket.write(text);
  });
}
