import { generateKeyPairSync, randomUUID } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { Provider } from "oidc-provider";
import { Browser } from "./browser.ts";

/** The id of a client that is registered statically; a test configures the assistant with it. */
export const KNOWN_CLIENT = "berth-by-hand";

export interface AuthorizationServerOptions {
  readonly accessTokenSeconds?: number;
  /** If false, the server offers no dynamic registration. */
  readonly registers?: boolean;
}

export type Intercept = (request: IncomingMessage, response: ServerResponse) => boolean;

/**
 * A real authorization server (oidc-provider) on this machine: discovery, dynamic registration, mandatory PKCE, code
 * and refresh grants with rotation, revocation, `iss` in its answers. It has a login form and a consent form, which
 * `signIn` fills in.
 */
export class AuthorizationServer implements AsyncDisposable {
  readonly issuer: string;
  /** All received requests, such as `POST /token`. */
  readonly requests: string[] = [];
  /** Called for each request before the server handles it. Returns true if it has answered the request. */
  intercept: Intercept = () => false;
  readonly #server: Server;
  readonly #provider: Provider;

  private constructor(server: Server, issuer: string, options: AuthorizationServerOptions) {
    this.issuer = issuer;
    this.#server = server;
    this.#provider = providerOf(issuer, options);
    const answer = this.#provider.callback();
    server.on("request", (request, response) => {
      const { pathname } = new URL(request.url ?? "/", issuer);
      this.requests.push(`${request.method} ${pathname}`);
      if (this.intercept(request, response)) return;
      if (pathname.startsWith("/interaction/")) void this.#interact(request, response);
      else void answer(request, response);
    });
  }

  static async start(options: AuthorizationServerOptions = {}): Promise<AuthorizationServer> {
    const server = createServer();
    await new Promise<void>((resolve) => {
      server.listen(0, "127.0.0.1", resolve);
    });
    const address = server.address();
    if (typeof address !== "object" || address === null) throw new Error("it does not listen");
    return new AuthorizationServer(server, `http://127.0.0.1:${address.port}`, options);
  }

  /**
   * Returns the part of the file in ASSISTANT_OAUTH_CONFIG that describes this server. The tokens that the server
   * issues are valid for models at `baseUrl`.
   */
  endpoints(baseUrl: string, clientId?: string) {
    return { issuer: this.issuer, baseUrl, ...(clientId === undefined ? {} : { clientId }) };
  }

  /** Logs the user in and gives consent, or declines. Resolves to the URL to which the browser is redirected. */
  async authorize(authorizeUrl: string, decision: "consent" | "abort" = "consent"): Promise<URL> {
    const browser = new Browser();
    let at = await browser.follow(authorizeUrl);
    for (let pages = 0; pages < 5; pages += 1) {
      if ("away" in at) return at.away;
      const { response, url } = at;
      const page = await response.text();
      const prompt = /name="prompt" value="(login|consent)"/.exec(page)?.[1];
      if (prompt === undefined) throw new Error(`no form at ${url.pathname}: ${page}`);
      at = await browser.follow(url, {
        prompt: decision === "abort" ? "abort" : prompt,
        login: "alice",
      });
    }
    throw new Error("the authorization server never sent the browser back");
  }

  /** Logs the user in like `authorize`, and then follows the redirect as the browser does. */
  async signIn(authorizeUrl: string, decision: "consent" | "abort" = "consent"): Promise<Response> {
    return fetch(await this.authorize(authorizeUrl, decision), { redirect: "manual" });
  }

  /** Returns the owner of an access token; undefined if the token is not valid. */
  async accountOf(accessToken: string): Promise<string | undefined> {
    return (await this.#provider.AccessToken.find(accessToken))?.accountId;
  }

  async hasRefreshToken(refreshToken: string): Promise<boolean> {
    const found = await this.#provider.RefreshToken.find(refreshToken);
    return found !== undefined && found.consumed === undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }

  async #interact(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { prompt, params, grantId, session } = await this.#provider.interactionDetails(
      request,
      response,
    );
    if (request.method !== "POST") {
      response.setHeader("content-type", "text/html");
      response.end(`<form method="post"><input name="prompt" value="${prompt.name}"></form>`);
      return;
    }
    const form = new URLSearchParams(await textOf(request));
    const wish = form.get("prompt");
    if (wish === "abort") {
      await this.#provider.interactionFinished(request, response, { error: "access_denied" });
      return;
    }
    if (wish === "login") {
      const login = { accountId: form.get("login") ?? "" };
      await this.#provider.interactionFinished(request, response, { login });
      return;
    }
    const grant =
      (grantId === undefined ? undefined : await this.#provider.Grant.find(grantId)) ??
      new this.#provider.Grant({
        accountId: session?.accountId ?? "",
        clientId: String(params["client_id"]),
      });
    grant.addOIDCScope(String(params["scope"]));
    const consent = { grantId: await grant.save() };
    await this.#provider.interactionFinished(
      request,
      response,
      { consent },
      { mergeWithLastSubmission: true },
    );
  }
}

function providerOf(issuer: string, options: AuthorizationServerOptions): Provider {
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const key = privateKey.export({ format: "jwk" });
  return new Provider(issuer, {
    jwks: { keys: [{ ...key, kty: "RSA", use: "sig", alg: "RS256", kid: randomUUID() }] },
    cookies: { keys: [randomUUID()] },
    scopes: ["openid", "inference-api"],
    features: {
      devInteractions: { enabled: false },
      registration: { enabled: options.registers ?? true },
      revocation: { enabled: true, allowedPolicy: () => Promise.resolve(true) },
    },
    pkce: { required: () => true },
    clientBasedCORS: () => false,
    issueRefreshToken: (_context, client) =>
      Promise.resolve(client.grantTypeAllowed("refresh_token")),
    rotateRefreshToken: true,
    expiresWithSession: () => false,
    findAccount: (_context, accountId) => ({ accountId, claims: () => ({ sub: accountId }) }),
    interactions: { url: (_context, { uid }) => `/interaction/${uid}` },
    ttl: {
      AccessToken: options.accessTokenSeconds ?? 3600,
      AuthorizationCode: 60,
      Grant: 86_400,
      IdToken: 3600,
      Interaction: 600,
      RefreshToken: 86_400,
      Session: 3600,
    },
    clients: [
      {
        client_id: KNOWN_CLIENT,
        application_type: "native",
        redirect_uris: ["http://127.0.0.1/callback"],
        token_endpoint_auth_method: "none",
        grant_types: ["authorization_code", "refresh_token"],
        response_types: ["code"],
      },
    ],
  });
}

async function textOf(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(Buffer.from(part));
  return Buffer.concat(parts).toString("utf8");
}
