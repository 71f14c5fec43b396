import { createHmac, randomBytes } from "node:crypto";
import { once } from "node:events";
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from "node:http";
import { createServer as createTlsServer } from "node:https";
import {
  entryNotFound,
  fileRefusal,
  identifyAsker,
  listingRefusal,
  type Refusal,
  refuse,
  revisionNotFound,
} from "./access.ts";
import { type Content, type GivenContent, loadContent } from "./content.ts";
import { type Endpoint, Faults } from "./faults.ts";
import { modelInfo, treeEntry } from "./listing-responses.ts";
import { type PlainFile, type PlainFileOptions, servedFile } from "./plain-files.ts";
import { Repository, type RepositoryFile, type RepositoryOptions } from "./repository.ts";
import { applyMisbehaviour, type Served, sendContent } from "./send-content.ts";

export interface HubOptions {
  /** The key and the certificate in PEM. If set, the hub uses https, but its CDN does not. */
  readonly tls?: { readonly key: string; readonly cert: string };
}

export interface HubRequest {
  readonly server: "hub" | "cdn";
  readonly method: string;
  /** The path of the request, with its query. */
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  /** The HTTP status; 0 until the response is sent. */
  status: number;
  bodyBytes: number;
}

const RESOLVE = /^\/([^/]+\/[^/]+)\/resolve\/([^/]+)\/(.+)$/;
const RESOLVE_CACHE = /^\/api\/resolve-cache\/models\/([^/]+\/[^/]+)\/([^/]+)\/(.+)$/;

interface Signed {
  readonly served: Served;
  readonly name: string;
  expired: boolean;
}

/**
 * A model hub with the protocol of Hugging Face, on two loopback ports: the hub, which lists repositories and redirects
 * to their files, and a CDN for files in LFS, behind signed URLs. One account has access, with `token`. The hub also
 * serves plain files, like any web server.
 */
export class Hub implements AsyncDisposable {
  readonly token = `hf_${randomBytes(16).toString("hex")}`;
  readonly faults = new Faults();
  /** The requests that the hub and the CDN have received, oldest first. */
  readonly requests: HubRequest[] = [];
  /** Determines if files outside of LFS are sent directly, or through a redirect to another path of the hub. */
  smallFiles: "direct" | "relative-redirect" = "direct";
  readonly #repositories = new Map<string, Repository>();
  readonly #moved = new Map<string, string>();
  readonly #plain = new Map<string, PlainFile>();
  readonly #signed = new Map<string, Signed>();
  readonly #secret = randomBytes(16);
  readonly #hub: Server;
  readonly #cdn: Server;
  readonly #scheme: string;

  static async open(options: HubOptions = {}): Promise<Hub> {
    const hub = new Hub(options);
    for (const server of [hub.#hub, hub.#cdn]) {
      server.listen(0, "127.0.0.1");
      await once(server, "listening");
    }
    return hub;
  }

  private constructor(options: HubOptions) {
    this.#scheme = options.tls ? "https" : "http";
    const atHub = this.#listener("hub", (...all) => this.#atHub(...all));
    this.#hub = options.tls ? createTlsServer(options.tls, atHub) : createServer(atHub);
    this.#cdn = createServer(this.#listener("cdn", (...all) => this.#atCdn(...all)));
  }

  /** The endpoint in the form of HF_ENDPOINT, without a slash at the end. */
  get url(): string {
    return `${this.#scheme}://127.0.0.1:${portOf(this.#hub)}`;
  }

  /** The base URL of the CDN, which is another origin than `url`. */
  get cdnUrl(): string {
    return `http://127.0.0.1:${portOf(this.#cdn)}`;
  }

  async addRepository(options: RepositoryOptions): Promise<Repository> {
    const repository = await Repository.create(options);
    this.#repositories.set(repository.id.toLowerCase(), repository);
    return repository;
  }

  /** Renames a repository: the hub redirects the old id to the new one. */
  move(from: string, to: string): void {
    this.#moved.set(from.toLowerCase(), to);
  }

  /**
   * Serves a file at `url` plus this path, such as `/files/x.gguf`, and returns its URL. Replaces an earlier file at
   * the path.
   */
  async addFile(
    path: string,
    given: GivenContent,
    options: PlainFileOptions = {},
  ): Promise<string> {
    this.#plain.set(path, { content: await loadContent(given), options });
    return this.url + path;
  }

  /** Expires all signed URLs of the CDN; the hub signs new ones. */
  expireUrls(): void {
    for (const signed of this.#signed.values()) signed.expired = true;
  }

  /** Returns the requests that the given server, the hub or the CDN, has received, oldest first. */
  at(server: "hub" | "cdn"): HubRequest[] {
    return this.requests.filter((request) => request.server === server);
  }

  /** The requests to the CDN that contain credentials; there should be none. */
  get leaks(): HubRequest[] {
    return this.at("cdn").filter(({ headers }) => headers.authorization !== undefined);
  }

  /** The total bytes of file content that the hub and the CDN have sent. */
  get bytesSent(): number {
    return this.requests.reduce((sum, { bodyBytes }) => sum + bodyBytes, 0);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const server of [this.#hub, this.#cdn]) {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    }
  }

  #listener(
    server: "hub" | "cdn",
    handle: (request: IncomingMessage, response: ServerResponse, log: HubRequest) => Promise<void>,
  ): (request: IncomingMessage, response: ServerResponse) => void {
    return (request, response) => {
      const { method = "", url = "", headers } = request;
      const log: HubRequest = { server, method, url, headers, status: 0, bodyBytes: 0 };
      this.requests.push(log);
      response.once("close", () => (log.status = response.headersSent ? response.statusCode : 0));
      handle(request, response, log).catch(() => response.destroy());
    };
  }

  async #atHub(request: IncomingMessage, response: ServerResponse, log: HubRequest): Promise<void> {
    const url = new URL(request.url ?? "/", this.url);
    const plain = this.#plain.get(decodeURIComponent(url.pathname));
    if (plain) return this.#plainFile(plain, url, request, response, log);
    const api = /^\/api\/models\/([^/]+\/[^/]+)(?:\/(revision|tree)\/([^/]+))?$/.exec(url.pathname);
    if (api) {
      const [, id = "", view, revision = "main"] = api;
      if (applyMisbehaviour(this.#take("api", request, id), request, response)) return undefined;
      return this.#api(id, view === "tree", decodeURIComponent(revision), url, request, response);
    }
    const file = RESOLVE.exec(url.pathname) ?? RESOLVE_CACHE.exec(url.pathname);
    if (!file) return refuse(response, entryNotFound);
    const [, id = "", revision = "", name = ""] = file.map((part) =>
      decodeURIComponent(part ?? ""),
    );
    return this.#resolve({ id, revision, name }, url, request, response, log);
  }

  #take(on: Endpoint, request: IncomingMessage, path: string) {
    return this.faults.take(on, request.method ?? "", path);
  }

  /**
   * Returns the repository. If access is refused, or if `id` is the old name of a repository, sends the refusal or a
   * redirect, and returns undefined.
   */
  #repository(
    id: string,
    request: IncomingMessage,
    response: ServerResponse,
  ): Repository | undefined {
    const wanted = this.#moved.get(id.toLowerCase()) ?? id;
    const repository = this.#repositories.get(wanted.toLowerCase());
    const asker = identifyAsker(request, this.token);
    const refusal = listingRefusal(repository, asker);
    if (refusal || !repository) {
      if (refusal) refuse(response, refusal);
      return undefined;
    }
    if (repository.id === id) return repository;
    const location = (request.url ?? "").replace(id, repository.id);
    response.writeHead(307, { location }).end(`Temporary Redirect. Redirecting to ${location}`);
    return undefined;
  }

  #api(
    id: string,
    isTree: boolean,
    revision: string,
    url: URL,
    request: IncomingMessage,
    response: ServerResponse,
  ): void {
    const repository = this.#repository(id, request, response);
    if (!repository) return;
    const commit = repository.find(revision);
    if (!commit) return refuse(response, revisionNotFound(revision));
    const files = [...commit.files.values()];
    const headers: Record<string, string> = { "content-type": "application/json; charset=utf-8" };
    if (!isTree) {
      const blobs = url.searchParams.get("blobs") === "true";
      response.writeHead(200, headers);
      response.end(JSON.stringify(modelInfo(repository, commit.sha, files, blobs)));
      return;
    }
    const limit = Number(url.searchParams.get("limit") ?? 1000);
    const from = Number(url.searchParams.get("cursor") ?? 0);
    if (from + limit < files.length) {
      url.searchParams.set("cursor", String(from + limit));
      headers["link"] = `<${url.href}>; rel="next"`;
    }
    response.writeHead(200, headers);
    response.end(JSON.stringify(files.slice(from, from + limit).map(treeEntry)));
  }

  async #resolve(
    asked: { readonly id: string; readonly revision: string; readonly name: string },
    url: URL,
    request: IncomingMessage,
    response: ServerResponse,
    log: HubRequest,
  ): Promise<void> {
    const faults = this.#take("resolve", request, asked.name);
    if (applyMisbehaviour(faults, request, response)) return;
    const repository = this.#repository(asked.id, request, response);
    if (!repository) return;
    const commit = repository.find(asked.revision);
    const file = commit?.files.get(asked.name);
    const refusal: Refusal | undefined =
      fileRefusal(repository, identifyAsker(request, this.token)) ??
      (commit ? (file ? undefined : entryNotFound) : revisionNotFound(asked.revision));
    if (refusal || !commit || !file) return refuse(response, refusal ?? entryNotFound);
    const headers = { "x-repo-commit": commit.sha, vary: "Origin, Accept" };
    if (file.lfs) {
      const location = this.#sign(file);
      const body = `Found. Redirecting to ${location}`;
      response.writeHead(302, {
        ...headers,
        "content-type": "text/plain; charset=utf-8",
        "content-length": Buffer.byteLength(body),
        "x-linked-size": file.content.sizeBytes,
        "x-linked-etag": `"${file.content.sha256}"`,
        "accept-ranges": "bytes",
        location,
      });
      response.end(request.method === "HEAD" ? undefined : body);
      return;
    }
    if (this.smallFiles === "relative-redirect" && !url.pathname.startsWith("/api/")) {
      const location = `/api/resolve-cache/models/${repository.id}/${commit.sha}/${encodeURI(file.name)}`;
      const linked = { "x-linked-size": file.content.sizeBytes, "x-linked-etag": `"${file.oid}"` };
      response.writeHead(307, { ...headers, ...linked, location }).end();
      return;
    }
    const etag = `"${file.oid}"`;
    const served = { content: file.content, etag, ranges: true, length: true, headers };
    await sendContent(served, faults, request, response, (count) => (log.bodyBytes += count));
  }

  #sign(file: RepositoryFile): string {
    const { sha256 } = file.content;
    const expires = Date.now() + 3_600_000;
    const signature = createHmac("sha256", this.#secret)
      .update(`${sha256} ${expires} ${this.#signed.size}`)
      .digest("hex");
    const path = `/xet-bridge/${sha256}?X-Amz-Expires=3600&Expires=${expires}&Signature=${signature}`;
    const shown = file.name.split("/").at(-1) ?? file.name;
    this.#signed.set(path, { served: onCdn(file.content, shown), name: file.name, expired: false });
    return this.cdnUrl + path;
  }

  async #atCdn(request: IncomingMessage, response: ServerResponse, log: HubRequest): Promise<void> {
    const signed = this.#signed.get(request.url ?? "");
    const faults = signed ? this.#take("cdn", request, signed.name) : [];
    if (!signed || signed.expired) {
      applyMisbehaviour([{ type: "expired" }], request, response);
      return;
    }
    if (applyMisbehaviour(faults, request, response)) return;
    await sendContent(signed.served, faults, request, response, (count) => {
      log.bodyBytes += count;
    });
  }

  async #plainFile(
    file: PlainFile,
    url: URL,
    request: IncomingMessage,
    response: ServerResponse,
    log: HubRequest,
  ): Promise<void> {
    const faults = this.#take("files", request, decodeURIComponent(url.pathname));
    if (applyMisbehaviour(faults, request, response)) return;
    if (file.options.needsToken && identifyAsker(request, this.token) !== "account") {
      response.writeHead(401, { "www-authenticate": "Bearer" }).end("no");
      return;
    }
    if (request.method === "HEAD" && file.options.head === false) {
      response.writeHead(405, { allow: "GET" }).end();
      return;
    }
    await sendContent(servedFile(file), faults, request, response, (count) => {
      log.bodyBytes += count;
    });
  }
}

/** Serves a file as an object store does: the entity tag of the file is not a digest of its content. */
function onCdn(content: Content, name: string): Served {
  return {
    content,
    etag: `"${content.gitBlob.slice(0, 32)}-1"`,
    lastModified: "Wed, 01 Jan 2025 00:00:00 GMT",
    ranges: true,
    length: true,
    headers: { "content-disposition": `inline; filename*=UTF-8''${encodeURIComponent(name)};` },
  };
}

function portOf(server: Server): number {
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("it does not listen");
  return address.port;
}
