import * as oauth from "oauth4webapi";
import type { Clock } from "../../../base/clock.ts";
import type { SignInConfig } from "../../../config/sign-in-config.ts";
import { AssistantError } from "../../assistant-error.ts";
import type { OAuthSession } from "../vault/port.ts";
import { getSingle, readCode } from "./callback-parameters.ts";
import { toRefreshError, toSignInError } from "./oauth-errors.ts";
import { SignInFailure } from "./sign-in-failure.ts";
import type { SignInHttpClient, SignInRequest } from "./sign-in-http-client.ts";
import type { SignInProtocol, StartedSignIn } from "./sign-in-protocol.ts";
import { isEqualConstantTime, parseToken, randomPathSegment } from "./sign-in-secrets.ts";

/** The OAuth scopes. They allow requests to models in the user's name, and give no access to the account itself. */
const SCOPE = "openid inference-api";
/**
 * The path of the callback for a manually registered client. The redirect URI of such a client is fixed; only the port
 * may vary (RFC 8252, 7.3).
 */
const REGISTERED_CLIENT_CALLBACK = "/callback";
/**
 * The longest lifetime of a session in seconds. If the provider states a longer one, the session is renewed after this
 * time nevertheless.
 */
const EXPIRES_SECONDS_MAX = 10 * 365 * 86_400;

/**
 * Sign-in with OpenID Connect, using code, PKCE, state, nonce and, if the provider supports it, `iss`. Hugging Face
 * uses this protocol.
 */
export class OpenIdConnectSignIn implements SignInProtocol {
  readonly #endpoints: SignInConfig["huggingface"];
  readonly #requests: SignInHttpClient;
  readonly #clock: Clock;

  constructor(endpoints: SignInConfig["huggingface"], requests: SignInHttpClient, clock: Clock) {
    this.#endpoints = endpoints;
    this.#requests = requests;
    this.#clock = clock;
  }

  async start(origin: string, signal: AbortSignal): Promise<StartedSignIn> {
    const server = await this.#discover(signal);
    const { clientId } = this.#endpoints;
    const path = clientId === undefined ? `/${randomPathSegment()}` : REGISTERED_CLIENT_CALLBACK;
    const redirectUri = `${origin}${path}`;
    const client = {
      client_id: clientId ?? (await this.#register(server, redirectUri, signal)),
    };
    const secrets = {
      verifier: oauth.generateRandomCodeVerifier(),
      state: oauth.generateRandomState(),
      nonce: oauth.generateRandomNonce(),
    };
    const url = new URL(this.#authorizeEndpoint(server));
    for (const [name, value] of Object.entries({
      response_type: "code",
      client_id: client.client_id,
      redirect_uri: redirectUri,
      scope: SCOPE,
      state: secrets.state,
      nonce: secrets.nonce,
      code_challenge: await oauth.calculatePKCECodeChallenge(secrets.verifier),
      code_challenge_method: "S256",
    }))
      url.searchParams.set(name, value);
    return {
      authorizeUrl: url.href,
      isCallback: (pathname) => pathname === path,
      redeem: async ({ searchParams }, redeeming) => {
        verifyCallback(server, searchParams, secrets.state);
        // The callback must contain either an error or a code. The error is checked first.
        readCode(searchParams);
        try {
          const parameters = oauth.validateAuthResponse(
            server,
            client,
            searchParams,
            secrets.state,
          );
          const response = await oauth.authorizationCodeGrantRequest(
            server,
            client,
            oauth.None(),
            parameters,
            redirectUri,
            secrets.verifier,
            this.#requestOptions(redeeming),
          );
          const tokens = await oauth.processAuthorizationCodeResponse(server, client, response, {
            expectedNonce: secrets.nonce,
            requireIdToken: true,
          });
          await oauth.validateApplicationLevelSignature(
            server,
            response,
            this.#requestOptions(redeeming),
          );
          return this.#createSession(tokens, client.client_id, undefined);
        } catch (error) {
          throw toSignInError(error, redeeming);
        }
      },
    };
  }

  async refresh(session: OAuthSession, signal: AbortSignal): Promise<OAuthSession> {
    if (session.refreshToken === undefined)
      throw new AssistantError("unauthorized", "the session has ended; sign in again");
    const server = await this.#discover(signal);
    const client = { client_id: session.clientId };
    try {
      const response = await oauth.refreshTokenGrantRequest(
        server,
        client,
        oauth.None(),
        session.refreshToken,
        this.#requestOptions(signal),
      );
      const tokens = await oauth.processRefreshTokenResponse(server, client, response);
      if (tokens.id_token !== undefined)
        await oauth.validateApplicationLevelSignature(
          server,
          response,
          this.#requestOptions(signal),
        );
      return this.#createSession(tokens, session.clientId, session.refreshToken);
    } catch (error) {
      throw toRefreshError(error, signal);
    }
  }

  /** Revokes the refresh token first, because many providers then revoke its access tokens as well. */
  async revoke(session: OAuthSession, signal: AbortSignal): Promise<void> {
    const server = await this.#discover(signal);
    if (server.revocation_endpoint === undefined) return;
    const client = { client_id: session.clientId };
    for (const [token, hint] of [
      [session.refreshToken, "refresh_token"],
      [session.accessToken, "access_token"],
    ] as const) {
      if (token === undefined) continue;
      const response = await oauth.revocationRequest(server, client, oauth.None(), token, {
        ...this.#requestOptions(signal),
        additionalParameters: { token_type_hint: hint },
      });
      await oauth.processRevocationResponse(response);
    }
  }

  async #discover(signal: AbortSignal): Promise<oauth.AuthorizationServer> {
    const issuer = new URL(this.#endpoints.issuer);
    try {
      const response = await oauth.discoveryRequest(issuer, this.#requestOptions(signal));
      return await oauth.processDiscoveryResponse(issuer, response);
    } catch (error) {
      if (signal.aborted || error instanceof AssistantError) throw error;
      throw new AssistantError(
        "bad_response",
        "the provider's sign-in metadata is missing or invalid; try again later",
      );
    }
  }

  /**
   * Registers a client for this one sign-in. Its only redirect URI is that of the listener, whose port and path are not
   * known in advance. The registration contains no secret (RFC 8252, 8.4).
   */
  async #register(
    server: oauth.AuthorizationServer,
    redirectUri: string,
    signal: AbortSignal,
  ): Promise<string> {
    const refused = new AssistantError(
      "bad_response",
      "the provider does not let programs register as public clients; register Berth there manually, " +
        "and write its client id into the file that ASSISTANT_OAUTH_CONFIG names",
    );
    if (server.registration_endpoint === undefined) throw refused;
    try {
      const response = await oauth.dynamicClientRegistrationRequest(
        server,
        {
          client_name: "Berth",
          application_type: "native",
          redirect_uris: [redirectUri],
          response_types: ["code"],
          grant_types: ["authorization_code", "refresh_token"],
          token_endpoint_auth_method: "none",
          scope: SCOPE,
        },
        this.#requestOptions(signal),
      );
      const registered = await oauth.processDynamicClientRegistrationResponse(response);
      if ((registered["token_endpoint_auth_method"] ?? "none") !== "none") throw refused;
      return registered.client_id;
    } catch (error) {
      if (signal.aborted || error instanceof AssistantError) throw error;
      throw refused;
    }
  }

  #authorizeEndpoint(server: oauth.AuthorizationServer): string {
    const endpoint = server.authorization_endpoint;
    if (endpoint === undefined || !this.#requests.isAllowed(endpoint))
      throw new AssistantError(
        "bad_response",
        "the provider's metadata has no sign-in page, or one without https",
      );
    return endpoint;
  }

  #createSession(
    tokens: oauth.TokenEndpointResponse,
    clientId: string,
    former: string | undefined,
  ): OAuthSession {
    const { expires_in: seconds } = tokens;
    return {
      kind: "oauth",
      accessToken: parseToken(tokens.access_token),
      // If a renewal returns no new refresh token, the former one stays valid (RFC 6749, section 6).
      refreshToken: tokens.refresh_token === undefined ? former : parseToken(tokens.refresh_token),
      expiresAtMs:
        seconds === undefined
          ? undefined
          : this.#clock.now() + Math.floor(Math.min(seconds, EXPIRES_SECONDS_MAX) * 1000),
      clientId,
    };
  }

  /**
   * Returns the options for the OAuth library. `allowInsecureRequests` disables the library's check for HTTPS, because
   * the HTTP client of `customFetch` decides which addresses are allowed.
   */
  #requestOptions(signal: AbortSignal) {
    return {
      signal,
      [oauth.allowInsecureRequests]: true,
      [oauth.customFetch]: (address: string, init: SignInRequest) =>
        this.#requests.send(address, init),
    };
  }
}

/** Throws SignInFailure for a callback that does not belong to this sign-in or comes from another server. */
function verifyCallback(
  server: oauth.AuthorizationServer,
  parameters: URLSearchParams,
  state: string,
): void {
  const given = getSingle(parameters, "state");
  if (given === undefined || !isEqualConstantTime(given, state))
    throw new SignInFailure("state_mismatch", "state");
  const isTold = server.authorization_response_iss_parameter_supported === true;
  if (!isTold && !parameters.has("iss")) return;
  if (getSingle(parameters, "iss") !== server.issuer)
    throw new SignInFailure("issuer_mismatch", parameters.has("iss") ? "iss" : "no_iss");
}
