import { createHash, randomUUID } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";

interface Authorization {
  readonly challenge: string;
  isUsed: boolean;
}

/**
 * A substitute for OpenRouter's sign-in: `/auth` consents at once and redirects the browser with a code, and
 * `/api/v1/auth/keys` exchanges the code and its verifier for a key. A code is valid once.
 */
export class OpenRouterSignInServer implements AsyncDisposable {
  readonly origin: string;
  /** All keys that the server has issued. */
  readonly keys: string[] = [];
  /** The number of requests for a key. */
  exchanges = 0;
  /** Called before the server exchanges a code for a key. Returns true if it has answered the request. */
  intercept: (request: IncomingMessage, response: ServerResponse) => boolean = () => false;
  readonly #server: Server;
  readonly #codes = new Map<string, Authorization>();

  private constructor(server: Server, origin: string) {
    this.#server = server;
    this.origin = origin;
    server.on("request", (request, response) => void this.#answer(request, response));
  }

  static async start(): Promise<OpenRouterSignInServer> {
    const server = createServer();
    await new Promise<void>((resolve) => {
      server.listen(0, "127.0.0.1", resolve);
    });
    const address = server.address();
    if (typeof address !== "object" || address === null) throw new Error("it does not listen");
    return new OpenRouterSignInServer(server, `http://127.0.0.1:${address.port}`);
  }

  /**
   * Returns this server's settings for the file that ASSISTANT_OAUTH_CONFIG names. `baseUrl` is the address of the
   * models for which the server's API keys are valid.
   */
  endpoints(baseUrl = `${this.origin}/api/v1`) {
    return {
      authorizeUrl: `${this.origin}/auth`,
      exchangeUrl: `${this.origin}/api/v1/auth/keys`,
      baseUrl,
    };
  }

  /** Gives consent as the user. Resolves to the URL to which the browser is redirected. */
  async authorize(authorizeUrl: string): Promise<URL> {
    const response = await fetch(authorizeUrl, { redirect: "manual" });
    const location = response.headers.get("location");
    if (location === null)
      throw new Error(`no redirect: ${response.status} ${await response.text()}`);
    return new URL(location);
  }

  /** Gives the user's consent with `authorize`, and then follows the redirect as the browser does. */
  async signIn(authorizeUrl: string): Promise<Response> {
    return fetch(await this.authorize(authorizeUrl), { redirect: "manual" });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", this.origin);
    if (url.pathname === "/auth") this.#consent(url.searchParams, response);
    else if (url.pathname === "/api/v1/auth/keys" && request.method === "POST") {
      this.exchanges += 1;
      if (!this.intercept(request, response)) await this.#exchange(request, response);
    } else respond(response, 404, { error: "not found" });
  }

  #consent(asked: URLSearchParams, response: ServerResponse): void {
    const callback = asked.get("callback_url") ?? "";
    const challenge = asked.get("code_challenge") ?? "";
    if (
      URL.parse(callback) === null ||
      asked.get("code_challenge_method") !== "S256" ||
      !challenge
    ) {
      respond(response, 400, { error: "it lacks a callback or an S256 challenge" });
      return;
    }
    const code = randomUUID();
    this.#codes.set(code, { challenge, isUsed: false });
    const back = new URL(callback);
    back.searchParams.set("code", code);
    response.writeHead(302, { location: back.href }).end();
  }

  async #exchange(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(Buffer.from(part));
    const asked: Record<string, unknown> = JSON.parse(Buffer.concat(parts).toString("utf8"));
    const { code, code_verifier, code_challenge_method } = asked;
    const found = this.#codes.get(String(code));
    const challenge = createHash("sha256").update(String(code_verifier)).digest("base64url");
    if (code_challenge_method !== "S256") {
      respond(response, 400, { error: "Invalid code_challenge_method" });
      return;
    }
    if (!found || found.isUsed || found.challenge !== challenge) {
      respond(response, 403, { error: "Invalid code or code_verifier" });
      return;
    }
    found.isUsed = true;
    const key = `sk-or-v1-${randomUUID()}`;
    this.keys.push(key);
    respond(response, 200, { key, user_id: "user_alice" });
  }
}

function respond(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
}
