import { createSign, generateKeyPairSync, type KeyObject, randomUUID } from "node:crypto";
import { createServer, type Server, type ServerResponse } from "node:http";

export type Claims = Record<string, unknown>;

/** The key pair that all providers of a test file share, because creating keys is slow. */
const sharedKeys = keyPair();

/** An OpenID provider whose answers the test controls. It consents to every sign-in at once. */
export class FakeOpenIdProvider implements AsyncDisposable {
  readonly issuer: string;
  readonly accessToken = `hf_oauth_${randomUUID()}`;
  readonly refreshToken = `hf_refresh_${randomUUID()}`;
  /** The number of requests by path. */
  readonly asked = new Map<string, number>();
  /** Receives the usual metadata of the provider, and returns the metadata that it serves. */
  metadata: (usual: Claims) => Claims = (usual) => usual;
  /** Receives the usual claims of an id token, and returns the claims that the provider signs. */
  claims: (usual: Claims) => Claims = (usual) => usual;
  /** Receives the usual response of the token endpoint, and returns the response that the provider sends. */
  tokens: (usual: Claims) => Claims = (usual) => usual;
  /** Handlers by path, each of which answers the requests for its path instead of the provider. */
  readonly instead = new Map<string, (response: ServerResponse) => void>();
  /** The key that signs id tokens. If a test replaces it, the signatures do not match the published keys. */
  signing: KeyObject = sharedKeys.privateKey;
  readonly #server: Server;
  #nonce = "";
  #clientId = "";

  private constructor(server: Server, issuer: string) {
    this.#server = server;
    this.issuer = issuer;
    server.on("request", (request, response) => {
      request.resume();
      const url = new URL(request.url ?? "/", issuer);
      this.asked.set(url.pathname, (this.asked.get(url.pathname) ?? 0) + 1);
      const instead = this.instead.get(url.pathname);
      if (instead) instead(response);
      else this.#answer(url, response);
    });
  }

  static async start(): Promise<FakeOpenIdProvider> {
    const server = createServer();
    await new Promise<void>((resolve) => {
      server.listen(0, "127.0.0.1", resolve);
    });
    const address = server.address();
    if (typeof address !== "object" || address === null) throw new Error("it does not listen");
    return new FakeOpenIdProvider(server, `http://127.0.0.1:${address.port}`);
  }

  /** Returns the URL to which the provider redirects the browser, with these changes of the URL's parameters. */
  async authorize(
    authorizeUrl: string,
    changes: Readonly<Record<string, string | undefined>> = {},
  ): Promise<URL> {
    const response = await fetch(authorizeUrl, { redirect: "manual" });
    const back = new URL(response.headers.get("location") ?? "");
    for (const [name, value] of Object.entries(changes)) {
      if (value === undefined) back.searchParams.delete(name);
      else back.searchParams.set(name, value);
    }
    return back;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }

  #answer(url: URL, response: ServerResponse): void {
    switch (url.pathname) {
      case "/.well-known/openid-configuration":
        respond(response, 200, this.metadata(this.#usualMetadata()));
        return;
      case "/register":
        respond(response, 201, { client_id: randomUUID(), token_endpoint_auth_method: "none" });
        return;
      case "/authorize": {
        this.#nonce = url.searchParams.get("nonce") ?? "";
        this.#clientId = url.searchParams.get("client_id") ?? "";
        const back = new URL(url.searchParams.get("redirect_uri") ?? "");
        back.searchParams.set("code", randomUUID());
        back.searchParams.set("state", url.searchParams.get("state") ?? "");
        back.searchParams.set("iss", this.issuer);
        response.writeHead(302, { location: back.href }).end();
        return;
      }
      case "/token":
        respond(response, 200, this.tokens(this.#usualTokens()));
        return;
      case "/jwks": {
        const key = sharedKeys.publicKey.export({ format: "jwk" });
        respond(response, 200, { keys: [{ ...key, kid: "1", use: "sig", alg: "RS256" }] });
        return;
      }
      default:
        respond(response, 404, { error: "not_found" });
    }
  }

  #usualMetadata(): Claims {
    return {
      issuer: this.issuer,
      authorization_endpoint: `${this.issuer}/authorize`,
      token_endpoint: `${this.issuer}/token`,
      registration_endpoint: `${this.issuer}/register`,
      jwks_uri: `${this.issuer}/jwks`,
      response_types_supported: ["code"],
      id_token_signing_alg_values_supported: ["RS256"],
      authorization_response_iss_parameter_supported: true,
    };
  }

  #usualTokens(): Claims {
    const now = Math.floor(Date.now() / 1000);
    const claims = this.claims({
      iss: this.issuer,
      aud: this.#clientId,
      sub: "alice",
      nonce: this.#nonce,
      iat: now,
      exp: now + 600,
    });
    return {
      access_token: this.accessToken,
      refresh_token: this.refreshToken,
      token_type: "Bearer",
      expires_in: 3600,
      id_token: signed(claims, this.signing),
    };
  }
}

export function keyPair() {
  return generateKeyPairSync("rsa", { modulusLength: 2048 });
}

function signed(claims: Claims, key: KeyObject): string {
  const content = `${encoded({ alg: "RS256", kid: "1" })}.${encoded(claims)}`;
  return `${content}.${createSign("sha256").update(content).sign(key).toString("base64url")}`;
}

function encoded(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString("base64url");
}

function respond(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
}
