import { calculatePKCECodeChallenge, generateRandomCodeVerifier } from "oauth4webapi";
import type { SignInConfig } from "../../../config/sign-in-config.ts";
import { AssistantError } from "../../assistant-error.ts";
import type { OAuthSession } from "../vault/port.ts";
import { readCode } from "./callback-parameters.ts";
import { SignInFailure } from "./sign-in-failure.ts";
import type { SignInHttpClient } from "./sign-in-http-client.ts";
import type { SignInProtocol, StartedSignIn } from "./sign-in-protocol.ts";
import { isEqualConstantTime, parseToken, randomPathSegment } from "./sign-in-secrets.ts";

/**
 * Sign-in with OpenRouter's own protocol, which exchanges a code for a key that the user can revoke at OpenRouter. The
 * protocol resembles OAuth with PKCE, but has no client registration, no parameters `state` and `iss`, no expiry and no
 * revocation endpoint. The state is the last segment of the callback's path, because the path is returned unchanged
 * even if the query is changed.
 */
export class OpenRouterSignIn implements SignInProtocol {
  readonly #endpoints: SignInConfig["openrouter"];
  readonly #requests: SignInHttpClient;

  constructor(endpoints: SignInConfig["openrouter"], requests: SignInHttpClient) {
    this.#endpoints = endpoints;
    this.#requests = requests;
  }

  async start(origin: string): Promise<StartedSignIn> {
    const verifier = generateRandomCodeVerifier();
    const [folder, state] = [`/${randomPathSegment()}/`, randomPathSegment()];
    const url = new URL(this.#endpoints.authorizeUrl);
    url.searchParams.set("callback_url", `${origin}${folder}${state}`);
    url.searchParams.set("code_challenge", await calculatePKCECodeChallenge(verifier));
    url.searchParams.set("code_challenge_method", "S256");
    return {
      authorizeUrl: url.href,
      isCallback: (pathname) => pathname.startsWith(folder),
      redeem: async (callback, signal) => {
        if (!isEqualConstantTime(callback.pathname.slice(folder.length), state))
          throw new SignInFailure("state_mismatch", "state");
        const code = readCode(callback.searchParams);
        return parseSession(await this.#exchange(code, verifier, signal));
      },
    };
  }

  refresh(): Promise<OAuthSession> {
    return Promise.reject(
      new AssistantError("unauthorized", "the session at OpenRouter has ended; sign in again"),
    );
  }

  /** Does nothing, because a key cannot delete itself. Users delete keys in OpenRouter's settings. */
  async revoke(): Promise<void> {}

  async #exchange(code: string, verifier: string, signal: AbortSignal): Promise<unknown> {
    const response = await this.#requests.send(this.#endpoints.exchangeUrl, {
      method: "POST",
      headers: { "content-type": "application/json", accept: "application/json" },
      body: JSON.stringify({ code, code_verifier: verifier, code_challenge_method: "S256" }),
      signal,
    });
    if (response.status !== 200)
      throw new SignInFailure("exchange_failed", `status_${response.status}`);
    try {
      return await response.json();
    } catch {
      throw new SignInFailure("exchange_failed", "no_json");
    }
  }
}

function parseSession(answer: unknown): OAuthSession {
  const key = typeof answer === "object" && answer !== null && "key" in answer && answer.key;
  return {
    kind: "oauth",
    accessToken: parseToken(key),
    refreshToken: undefined,
    expiresAtMs: undefined,
    clientId: "",
  };
}
