import { randomBytes } from "node:crypto";
import { mkdir, readFile, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { type Static, Type } from "typebox";
import { writeDurably } from "../base/atomic-file.ts";
import { BERTH_APPS_ID } from "../base/berth-tool-manifest.ts";
import { BerthError } from "../base/errors.ts";
import { LazyValidator } from "../base/json-validator.ts";
import { ApiError } from "../client/rest/api-error.ts";
import { type Client, createClient } from "../client/rest/client.ts";
import { originOf, type ServerTarget } from "../client/rest/server-target.ts";

const KeptTokens = Type.Object({
  /** The stored tokens, by the origin of their server. */
  servers: Type.Record(
    Type.String(),
    Type.Object({
      name: Type.String(),
      token: Type.String(),
      /**
       * The instance id of a server on this machine. A server with another id is a new instance, which does not know
       * the token.
       */
      instance: Type.Optional(Type.String()),
    }),
  ),
});
type KeptTokens = Static<typeof KeptTokens>;

const keptTokensValidator = new LazyValidator<KeptTokens>(KeptTokens);

/**
 * The assistant's own token for a server, of scope `write`, the smallest scope that can deploy. The first use creates
 * it with the user's credential, if that credential has a larger scope, and stores it in a file that only this user can
 * read (0600). After the token was revoked, no new one is created until `forget` is called, so that a revocation locks
 * the assistant out.
 */
export class AssistantToken {
  readonly #file: string;
  readonly #findTarget: () => Promise<ServerTarget>;
  #pendingClient: Promise<Client> | undefined;

  constructor(options: {
    readonly file: string;
    readonly findTarget: () => Promise<ServerTarget>;
  }) {
    this.#file = options.file;
    this.#findTarget = options.findTarget;
  }

  /**
   * Returns a client for the server. Throws BerthError: `server_unreachable`, `unauthorized`, and the errors of the
   * server.
   */
  connect(): Promise<Client> {
    // Only one attempt runs at a time: otherwise two concurrent first calls would each create a token.
    this.#pendingClient ??= this.#openClient().finally(() => {
      this.#pendingClient = undefined;
    });
    return this.#pendingClient;
  }

  /** Replaces the server's errors about the token by errors that tell an assistant's user what to do. */
  explainRefusal(error: unknown): unknown {
    if (!(error instanceof ApiError)) return error;
    if (error.code === "unauthorized")
      return new BerthError("unauthorized", "the assistant's token was revoked, or has expired", {
        hint: "the user restores access with `berth tools serve --forget-token`",
        cause: error,
      });
    if (error.code === "forbidden")
      return new BerthError("forbidden", `the assistant may not do that: ${error.message}`, {
        hint: "the token of BERTH_TOKEN or of `berth login` needs the scope write",
        cause: error,
      });
    return error;
  }

  /** Deletes the stored tokens; resolves to false if there were none. */
  async forget(): Promise<boolean> {
    const had = Object.keys((await this.#readKept()).servers).length > 0;
    await rm(this.#file, { force: true });
    return had;
  }

  async #openClient(): Promise<Client> {
    const target = await this.#findTarget().catch((error: unknown) => {
      throw hidePaths(error);
    });
    const origin = originOf(target.url);
    const kept = await this.#readKept();
    const own = kept.servers[origin];
    if (own && own.instance === target.instance)
      return createClient({ baseUrl: target.url, token: own.token });
    if (target.token === undefined)
      throw new BerthError("unauthorized", `there is no login for the server ${origin}`, {
        hint: "the user logs in with `berth login`",
      });
    const userClient = createClient({ baseUrl: target.url, token: target.token });
    const { scope } = await userClient.auth.whoami();
    // The user's credential has scope `write` or less, so it is used instead of a new token.
    if (scope !== "admin") return userClient;
    const { name, token } = await createOwnToken(userClient);
    const { instance } = target;
    kept.servers[origin] = { name, token, ...(instance === undefined ? {} : { instance }) };
    await mkdir(dirname(this.#file), { recursive: true, mode: 0o700 });
    await writeDurably(this.#file, `${JSON.stringify(kept, null, 2)}\n`);
    return createClient({ baseUrl: target.url, token });
  }

  async #readKept(): Promise<KeptTokens> {
    try {
      const value: unknown = JSON.parse(await readFile(this.#file, "utf8"));
      if (keptTokensValidator.isValid(value)) return value;
    } catch {
      // The file does not exist or is not valid: a new one replaces it.
    }
    return { servers: {} };
  }
}

/** Replaces an error for the terminal, which may name files of this machine, by an error without paths. */
function hidePaths(error: unknown): BerthError {
  const isNone = error instanceof BerthError && error.code === "server_unreachable";
  return isNone
    ? new BerthError(
        "server_unreachable",
        "no Berth server runs here, and there is no saved login",
        { hint: error.hint, cause: error },
      )
    : new BerthError("invalid_request", "the Berth server to use cannot be determined", {
        hint: "`berth status` shows what is wrong with the settings",
        cause: error,
      });
}

/** Creates a token, with a random suffix in its name if another user's assistant already uses the name. */
async function createOwnToken(userClient: Client) {
  const scope = "write";
  try {
    return await userClient.auth.createToken({ name: BERTH_APPS_ID, scope });
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 409) throw error;
    const name = `${BERTH_APPS_ID}-${randomBytes(4).toString("hex")}`;
    return await userClient.auth.createToken({ name, scope });
  }
}
