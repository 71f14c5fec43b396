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
  /** By the server's origin. */
  servers: Type.Record(
    Type.String(),
    Type.Object({
      name: Type.String(),
      token: Type.String(),
      /** Of a server on this machine: a new one is another server, and knows no old token. */
      instance: Type.Optional(Type.String()),
    }),
  ),
});
type KeptTokens = Static<typeof KeptTokens>;

const keptTokensValidator = new LazyValidator<KeptTokens>(KeptTokens);

/**
 * The assistant's own token for a server: scope `write`, which is the least that deploys. It is made at the
 * first use with the person's own credential, where that one may do more, and kept in a file that only this
 * user reads (0600). Whoever revokes it locks the assistant out until `forget`: it is never made anew by itself.
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

  /** Throws BerthError: `server_unreachable`, `unauthorized`, and what the server refuses. */
  connect(): Promise<Client> {
    // One at a time, or two first calls would make a token each.
    this.#pendingClient ??= this.#openClient().finally(() => {
      this.#pendingClient = undefined;
    });
    return this.#pendingClient;
  }

  /** What a server's refusal of a call means here, where it means something else than to a person. */
  explainRefusal(error: unknown): unknown {
    if (!(error instanceof ApiError)) return error;
    if (error.code === "unauthorized")
      return new BerthError("unauthorized", "the assistant's token was revoked, or has expired", {
        hint: "a person lets it in again with `berth tools serve --forget-token`",
        cause: error,
      });
    if (error.code === "forbidden")
      return new BerthError("forbidden", `the assistant may not do that: ${error.message}`, {
        hint: "it runs with BERTH_TOKEN, or with the token of `berth login`: one with the scope write is needed",
        cause: error,
      });
    return error;
  }

  /** Resolves to false where none was kept. */
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
      throw new BerthError("unauthorized", `nobody has logged in to the server ${origin}`, {
        hint: "a person does with `berth login`",
      });
    const person = createClient({ baseUrl: target.url, token: target.token });
    const { scope } = await person.auth.whoami();
    // As little as is needed, or less.
    if (scope !== "admin") return person;
    const { name, token } = await createOwnToken(person);
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
      // Not there, or not ours: a new one is made, and replaces it.
    }
    return { servers: {} };
  }
}

/** What a person at a terminal is told names files of this machine, which are nothing to an assistant. */
function hidePaths(error: unknown): BerthError {
  const isNone = error instanceof BerthError && error.code === "server_unreachable";
  return isNone
    ? new BerthError("server_unreachable", "no Berth server runs here, and none was logged in to", {
        hint: error.hint,
        cause: error,
      })
    : new BerthError("invalid_request", "it cannot be found out which Berth server is meant", {
        hint: "`berth status` says what is wrong with the settings",
        cause: error,
      });
}

/** Another user of the server may have the name for an assistant of theirs. */
async function createOwnToken(personClient: Client) {
  const scope = "write";
  try {
    return await personClient.auth.createToken({ name: BERTH_APPS_ID, scope });
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 409) throw error;
    const name = `${BERTH_APPS_ID}-${randomBytes(4).toString("hex")}`;
    return await personClient.auth.createToken({ name, scope });
  }
}
