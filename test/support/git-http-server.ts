import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import os from "node:os";
import path from "node:path";
import { pipeline } from "node:stream/promises";
import { GitRepositories } from "./git-repositories.ts";

/**
 * A fault of the server from now on. With `when: "pack"` it applies only to requests for objects, and not to those
 * for the list of refs.
 */
export type GitFault =
  | { readonly type: "hang"; readonly when?: "pack" }
  | { readonly type: "cut"; readonly afterBytes: number }
  /** The server sends this number of bytes of the pack, and then nothing more. */
  | { readonly type: "stall"; readonly afterBytes: number }
  | { readonly type: "redirect"; readonly to: string }
  | { readonly type: "status"; readonly code: number; readonly body?: string }
  /** The server answers with a page that is not git's, as a proxy or a captive portal does. */
  | { readonly type: "page"; readonly body: string };

export interface ReceivedRequest {
  readonly method: string;
  readonly url: string;
  readonly authorization: string | undefined;
  readonly userAgent: string | undefined;
}

export interface GitHttpServerOptions {
  /** The credentials of every repository. If `username` is undefined, any user name is accepted. */
  readonly auth?: { readonly username?: string; readonly password: string };
  /** If true, the server supports only version 1 of the protocol, as some servers still do. */
  readonly oldProtocol?: boolean;
  /** The key and the certificate in PEM. If set, the server uses https. */
  readonly tls?: { readonly key: string; readonly cert: string };
}

/**
 * Real git repositories behind HTTP on a loopback port: Node answers the requests with the output of `git
 * http-backend`. `repositories` has the methods to create, commit, branch and tag.
 */
export class GitHttpServer implements AsyncDisposable {
  readonly repositories: GitRepositories;
  /** Every request so far, oldest first. */
  readonly requests: ReceivedRequest[] = [];
  /** The fault of the server from the next request on; undefined if it has none. */
  fault: GitFault | undefined;
  /** The number of bytes in all responses of git. */
  bytesSent = 0;
  /** The number of open connections. */
  openConnections = 0;
  readonly #options: GitHttpServerOptions;
  readonly #server: Server;

  static async start(options: GitHttpServerOptions = {}): Promise<GitHttpServer> {
    const dir = await mkdtemp(path.join(os.tmpdir(), "berth-git-server-"));
    const server = new GitHttpServer(dir, options);
    await new Promise<void>((resolve) => server.#server.listen(0, "127.0.0.1", resolve));
    return server;
  }

  private constructor(dir: string, options: GitHttpServerOptions) {
    this.repositories = new GitRepositories(dir);
    this.#options = options;
    const handle = (request: IncomingMessage, response: ServerResponse) => {
      this.#handle(request, response).catch(() => response.destroy());
    };
    this.#server = options.tls ? createTlsServer(options.tls, handle) : createServer(handle);
    this.#server.on("connection", (socket) => {
      this.openConnections++;
      socket.once("close", () => this.openConnections--);
    });
  }

  /** The base URL, `http://127.0.0.1:PORT/`. */
  get origin(): string {
    const address = this.#server.address();
    if (address === null || typeof address === "string") throw new Error("it does not listen");
    return `${this.#options.tls ? "https" : "http"}://127.0.0.1:${address.port}`;
  }

  url(name: string): string {
    return `${this.origin}/${name}.git`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
    await rm(this.repositories.dir, { recursive: true, force: true });
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = request.url ?? "/";
    const { authorization, "user-agent": userAgent } = request.headers;
    this.requests.push({ method: request.method ?? "GET", url, authorization, userAgent });
    const fault = this.fault;
    if (fault?.type === "redirect") {
      response.writeHead(302, { location: `${fault.to}${url}` }).end();
      return;
    }
    if (fault?.type === "status") {
      response.writeHead(fault.code, { "content-type": "text/plain" }).end(fault.body ?? "");
      return;
    }
    if (fault?.type === "page") {
      response.writeHead(200, { "content-type": "text/html" }).end(fault.body);
      return;
    }
    if (fault?.type === "hang" && (fault.when === undefined || request.method === "POST")) return;
    if (!this.#admits(authorization)) {
      response.writeHead(401, { "www-authenticate": 'Basic realm="git"' }).end("no");
      return;
    }
    await this.#backend(request, response);
  }

  #admits(authorization: string | undefined): boolean {
    const { auth } = this.#options;
    if (!auth) return true;
    const given = /^Basic (.+)$/.exec(authorization ?? "")?.[1];
    if (!given) return false;
    const [username, ...password] = Buffer.from(given, "base64").toString("utf8").split(":");
    const named = auth.username === undefined ? username !== "" : username === auth.username;
    return named && password.join(":") === auth.password;
  }

  async #backend(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(request.url ?? "/", this.origin);
    const child = spawn("git", ["http-backend"], {
      stdio: ["pipe", "pipe", "ignore"],
      env: {
        PATH: process.env["PATH"],
        GIT_CONFIG_NOSYSTEM: "1",
        GIT_CONFIG_GLOBAL: "/dev/null",
        GIT_PROJECT_ROOT: this.repositories.dir,
        GIT_HTTP_EXPORT_ALL: "1",
        REQUEST_METHOD: request.method,
        PATH_INFO: decodeURIComponent(pathname),
        QUERY_STRING: searchParams.toString(),
        CONTENT_TYPE: request.headers["content-type"] ?? "",
        HTTP_CONTENT_ENCODING: request.headers["content-encoding"] ?? "",
        GIT_PROTOCOL: this.#options.oldProtocol
          ? ""
          : String(request.headers["git-protocol"] ?? ""),
      },
    });
    response.on("close", () => child.kill("SIGKILL"));
    // The git backend may answer before it has received the whole request.
    const body = pipeline(request, child.stdin).catch(() => {});
    await this.#answer(child.stdout, request, response);
    await body;
  }

  /** Sends the output of a CGI program as the response. The output has header lines, an empty line, and the body. */
  async #answer(
    output: AsyncIterable<Buffer>,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> {
    const { fault } = this;
    const limit =
      request.method === "POST" && (fault?.type === "cut" || fault?.type === "stall")
        ? fault.afterBytes
        : Number.POSITIVE_INFINITY;
    let head: Buffer | undefined = Buffer.alloc(0);
    let sent = 0;
    for await (const chunk of output) {
      let body = chunk;
      if (head) {
        head = Buffer.concat([head, chunk]);
        const end = head.indexOf("\r\n\r\n");
        if (end < 0) continue;
        writeHead(response, head.subarray(0, end).toString("latin1"));
        body = head.subarray(end + 4);
        head = undefined;
      }
      if (sent + body.length >= limit) {
        response.write(body.subarray(0, limit - sent), () => {
          if (fault?.type === "cut") response.destroy();
        });
        return;
      }
      sent += body.length;
      this.bytesSent += body.length;
      if (!response.write(body)) await drained(response);
    }
    if (head) response.writeHead(500);
    response.end();
  }
}

function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      response.off("drain", done).off("close", done);
      resolve();
    };
    response.once("drain", done).once("close", done);
  });
}

function writeHead(response: ServerResponse, head: string): void {
  let status = 200;
  for (const line of head.split("\r\n")) {
    const colon = line.indexOf(":");
    const [name, value] = [line.slice(0, colon), line.slice(colon + 1).trim()];
    if (name.toLowerCase() === "status") status = Number.parseInt(value, 10);
    else response.setHeader(name, value);
  }
  response.writeHead(status);
}
