import { BerthError, getErrorMessage } from "../base/errors.ts";
import { ApiError } from "../client/rest/api-error.ts";
import { createClient } from "../client/rest/client.ts";
import { originOf } from "../client/rest/server-target.ts";
import type { Cli } from "./cli.ts";
import { UsageError } from "./cli-errors.ts";
import { formatTime } from "./format-time.ts";
import { askSecret, canPrompt } from "./prompt.ts";
import { readAll } from "./read-input.ts";
import {
  credentialsFile,
  readSavedLogins,
  type SavedLogin,
  writeSavedLogins,
} from "./saved-logins.ts";

export interface LoginFlags {
  readonly passwordStdin?: boolean;
  readonly tokenStdin?: boolean;
}

const INPUT_BYTES_MAX = 1024 * 1024;

/** Logs in to a server, and makes it the default server of all verbs. */
export async function logIn(cli: Cli, url: string | undefined, flags: LoginFlags): Promise<void> {
  const server = resolveServer(cli, url);
  const login = await obtainLogin(cli, server, flags);
  const credentials = readSavedLogins(cli.io.environment);
  const file = writeSavedLogins(cli.io.environment, {
    current: server,
    servers: { ...credentials.servers, [server]: login },
  });
  const until =
    login.expires_at === undefined ? "" : ` until ${formatTime(login.expires_at, cli.io.now())}`;
  await cli.print(`logged in to ${server}${until}; saved in ${file}`);
}

/** Forgets the login, and ends its session at the server if the server answers. */
export async function logOut(cli: Cli, url: string | undefined): Promise<void> {
  const { environment } = cli.io;
  const credentials = readSavedLogins(environment);
  const wanted = url ?? cli.globals.url ?? credentials.current;
  const server = wanted === undefined ? undefined : originOf(withScheme(wanted));
  const saved = server === undefined ? undefined : credentials.servers[server];
  if (server === undefined || saved === undefined) {
    const known = Object.keys(credentials.servers);
    throw new BerthError(
      "not_found",
      `there is no login${server === undefined ? "" : ` for ${server}`} in ${credentialsFile(environment)}`,
      known.length === 0 ? {} : { hint: `berth logout ${known.join(" or ")}` },
    );
  }
  // Only a session is ended. A named token stays valid, because other programs may use it.
  if (saved.kind === "session") {
    try {
      await createClient({ baseUrl: server, token: saved.token }).auth.logout();
    } catch (error) {
      cli.note(`could not end the session at the server: ${getErrorMessage(error)}`);
    }
  }
  const { [server]: _gone, ...servers } = credentials.servers;
  writeSavedLogins(environment, {
    servers,
    ...(credentials.current === undefined || credentials.current === server
      ? {}
      : { current: credentials.current }),
  });
  await cli.print(`logged out of ${server}`);
}

function resolveServer(cli: Cli, url: string | undefined): string {
  const wanted = url ?? cli.globals.url ?? (cli.io.environment["BERTH_URL"] || undefined);
  if (wanted === undefined)
    throw new UsageError("login needs the address of a server", "berth login https://HOST");
  const full = withScheme(wanted);
  const server = URL.parse(full);
  if (!server || !/^https?:$/.test(server.protocol))
    throw new UsageError(`"${wanted}" is not the address of a server`, "berth login https://HOST");
  const { origin, protocol, hostname } = server;
  if (protocol === "http:" && !isLoopback(hostname))
    cli.note(
      cli.errorColours.yellow(
        `${origin} is not encrypted: anyone on the network can read the password`,
      ),
    );
  return origin;
}

/** Completes a host without a scheme: plain HTTP for loopback addresses, HTTPS for all others. */
function withScheme(address: string): string {
  if (address.includes("://")) return address;
  const host = address.replace(/(:\d+)?(\/.*)?$/, "");
  return `${isLoopback(host) ? "http" : "https"}://${address}`;
}

function isLoopback(host: string): boolean {
  return host === "localhost" || host === "[::1]" || /^127(\.\d+){3}$/.test(host);
}

async function obtainLogin(cli: Cli, server: string, flags: LoginFlags): Promise<SavedLogin> {
  if (flags.passwordStdin === true && flags.tokenStdin === true)
    throw new UsageError("--password-stdin and --token-stdin exclude each other");
  if (flags.tokenStdin === true) {
    const token = (await readAll(cli.io.input, INPUT_BYTES_MAX)).toString("utf8").trim();
    const identity = await createClient({ baseUrl: server, token }).auth.whoami();
    return {
      token,
      kind: identity.kind === "session" ? "session" : "named",
      ...(identity.expires_at === null ? {} : { expires_at: identity.expires_at }),
    };
  }
  if (flags.passwordStdin !== true && !canPrompt(cli))
    throw new UsageError(
      "there is no terminal to ask for the password",
      `berth login ${server} --password-stdin < FILE`,
    );
  const client = createClient({ baseUrl: server });
  // A server must answer before the user is asked for a password.
  await client.health();
  const password =
    flags.passwordStdin === true
      ? (await readAll(cli.io.input, INPUT_BYTES_MAX)).toString("utf8").replace(/\r?\n$/, "")
      : await askSecret(cli, `Password for ${server}: `);
  try {
    const { token, expires_at: expiresAt } = await client.auth.login(password);
    return { token, kind: "session", expires_at: expiresAt };
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 401) throw error;
    throw new BerthError("unauthorized", error.message, {
      hint: "the server printed its password at its first start; BERTH_PASSWORD sets another password at the next start",
      cause: error,
    });
  }
}
