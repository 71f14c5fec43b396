import { execFile } from "node:child_process";
import { Agent, request } from "node:http";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openTestApi, type TestApi } from "../../support/api-harness.ts";
import {
  type InferenceHttpHarness,
  startInferenceHttp,
} from "../../support/inference-http-harness.ts";

const MIB = 2 ** 20;
let api: TestApi;
let inference: InferenceHttpHarness;
let ports: { api: number; assistant: number };
beforeAll(async () => {
  api = await openTestApi({ uploadBytesMax: 100 * MIB });
  inference = await startInferenceHttp();
  ports = { api: Number(new URL(await api.listen()).port), assistant: inference.port };
});
afterAll(async () => {
  await api[Symbol.asyncDispose]();
  await inference[Symbol.asyncDispose]();
});

interface Upload {
  readonly server: "api" | "assistant";
  readonly method: string;
  readonly path: string;
  readonly type: string;
  /** The beginning of the body; `bytes` further bytes follow. */
  readonly start: string;
  readonly bytes: number;
  readonly chunked: boolean;
  readonly token: boolean;
}

const form = "multipart/form-data; boundary=b";
const invalidConfig = `--b\r\nContent-Disposition: form-data; name="config"\r\n\r\n{"name":"web","port":0}\r\n--b\r\nContent-Disposition: form-data; name="source"; filename="s"\r\n\r\n`;
const unknownPart = '--b\r\nContent-Disposition: form-data; name="sauce"; filename="s"\r\n\r\n';
const api400 = { server: "api", method: "POST", path: "/api/deploy", type: form } as const;
const archive = { server: "api", method: "PUT", path: "/api/archives", type: "x/y" } as const;
const json = { method: "POST", type: "application/json" } as const;
const plain = { start: "", bytes: 20 * MIB, chunked: false, token: true } as const;
const chat = { ...json, server: "assistant", path: "/v1/chat/completions" } as const;

const uploads: readonly (readonly [what: string, status: number, upload: Upload, kept: boolean])[] =
  [
    ["an invalid config", 400, { ...plain, ...api400, start: invalidConfig }, true],
    ["an unknown part", 400, { ...plain, ...api400, start: unknownPart }, true],
    ["a chunked form", 400, { ...plain, ...api400, start: unknownPart, chunked: true }, true],
    ["a form without boundary", 400, { ...plain, ...api400, type: "multipart/form-data" }, true],
    ["a form that is too long", 413, { ...plain, ...api400, bytes: 102 * MIB }, false],
    ["an archive that is too long", 413, { ...plain, ...archive, bytes: 102 * MIB }, false],
    [
      "a chunked archive that is too long",
      413,
      { ...plain, ...archive, bytes: 120 * MIB, chunked: true },
      true,
    ],
    ["no token", 401, { ...plain, ...archive, token: false }, true],
    ["no token, chunked", 401, { ...plain, ...archive, token: false, chunked: true }, true],
    ["an unknown API path", 404, { ...plain, ...archive, path: "/api/nothing" }, true],
    ["an unsupported method", 405, { ...plain, ...archive, method: "POST" }, true],
    ["too much JSON", 413, { ...plain, ...json, server: "api", path: "/api/apps" }, true],
    [
      "too much JSON, chunked",
      413,
      { ...plain, ...json, server: "api", path: "/api/apps", chunked: true },
      true,
    ],
    [
      "an unsupported content type",
      415,
      { ...plain, ...json, server: "api", path: "/api/apps", type: "x/y" },
      true,
    ],
    ["a long webhook", 413, { ...plain, ...json, server: "api", path: "/api/hooks/git/x" }, true],
    ["a chat that is too long", 413, { ...plain, ...chat }, true],
    ["a chunked chat", 413, { ...plain, ...chat, chunked: true }, true],
    ["a chat of an unsupported type", 415, { ...plain, ...chat, type: "x/y" }, true],
    ["an unknown path", 404, { ...plain, ...chat, path: "/v1/nothing" }, true],
    ["a very long chat", 413, { ...plain, ...chat, bytes: 70 * MIB }, false],
  ];

/**
 * Sends a body to its end before it reads the response, as Python's clients do. Then it uses the connection again.
 */
const python = `
import http.client, json, sys
port, upload, authorization = json.loads(sys.argv[1])
client = http.client.HTTPConnection("127.0.0.1", port, timeout=50)
headers = {"Content-Type": upload["type"]}
if upload["token"]: headers["Authorization"] = authorization
whole = upload["start"].encode() + b"x" * upload["bytes"]
body = whole
if upload["chunked"]: body = (whole[at:at + 65536] for at in range(0, len(whole), 65536))
client.request(upload["method"], upload["path"], body=body, headers=headers, encode_chunked=upload["chunked"])
answer = client.getresponse()
text = answer.read().decode()
kept = not answer.will_close
client.request("GET", "/api/health" if port == PORT else "/health")
again = client.getresponse()
again.read()
print(json.dumps({"status": answer.status, "text": text, "kept": kept, "again": again.status}))
`;

async function sendWithPython(upload: Upload): Promise<Outcome> {
  const script = python.replace("PORT", String(ports.api));
  const authorization = `Bearer ${api.token("write")}`;
  const argument = JSON.stringify([ports[upload.server], upload, authorization]);
  const { stdout } = await promisify(execFile)("python3", ["-c", script, argument]);
  const outcome: Outcome = JSON.parse(stdout);
  return outcome;
}

interface Outcome {
  readonly status: number;
  readonly text: string;
  /** True unless the response announces that the connection is closed. */
  readonly kept: boolean;
  /** The status of the next request on the same connection. */
  readonly again: number;
}

async function sendWithNode(upload: Upload): Promise<Outcome> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const port = ports[upload.server];
  const exchange = (path: string, options: Partial<Upload> = {}) =>
    new Promise<{ status: number; text: string; kept: boolean }>((resolve, reject) => {
      const { method = "GET", start = "", bytes = 0, type, chunked, token } = options;
      const sent = request({ agent, port, host: "127.0.0.1", path, method });
      if (type !== undefined) sent.setHeader("content-type", type);
      if (token) sent.setHeader("authorization", `Bearer ${api.token("write")}`);
      if (chunked === false) sent.setHeader("content-length", start.length + bytes);
      sent.on("error", reject);
      sent.on("response", (response) => {
        let text = "";
        response.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
        const kept = response.headers.connection !== "close";
        // The next request can use the connection only after the body of this request is sent.
        const done = () => resolve({ status: response.statusCode ?? 0, text, kept });
        response.on("end", () => (sent.writableFinished ? done() : sent.once("finish", done)));
      });
      sent.write(start);
      sent.end(Buffer.alloc(bytes, "x"));
    });
  try {
    const first = await exchange(upload.path, upload);
    const again = await exchange(upload.server === "api" ? "/api/health" : "/health");
    return { ...first, again: again.status };
  } finally {
    agent.destroy();
  }
}

describe.each([
  ["Python's http.client", sendWithPython],
  ["Node's http with keep-alive", sendWithNode],
] as const)("a refused upload by %s", (_client, send) => {
  it.each(uploads)("with %s gets the status %i", async (_what, status, upload, kept) => {
    const outcome = await send(upload);
    expect(outcome).toMatchObject({ status, kept, again: 200 });
    expect(JSON.parse(outcome.text)).toHaveProperty("error");
  });
});
