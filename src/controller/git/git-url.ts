import { BerthError } from "../../base/errors.ts";

/** A parsed repository URL. */
export interface GitUrl {
  readonly transport: "http" | "ssh";
  /** The address for programs: without user and password for http(s), unchanged for ssh. */
  readonly address: string;
  /** The address for messages: never with a password. */
  readonly displayUrl: string;
  /** `user:password` of an http(s) URL, decoded. */
  readonly login?: { readonly username: string; readonly password: string };
}

/**
 * Matches a repository address as scp writes it, `user@host:path`. The path must not begin with `//`, and the host must
 * not begin with `-`.
 */
const SCP =
  /^([A-Za-z0-9._][A-Za-z0-9._-]*)@(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_][A-Za-z0-9._-]*):(.+)$/;
/** Matches white space and control characters, at which git or ssh would split the text. */
const FORBIDDEN_CHARACTERS = /[\s\p{Cc}]/u;

/**
 * Parses a repository URL. Throws git_not_found for anything that Berth does not fetch, such as files, `git://` and
 * options.
 */
export function parseGitUrl(text: string): GitUrl {
  if (!FORBIDDEN_CHARACTERS.test(text)) {
    const scp = text.includes("://") ? null : SCP.exec(text);
    if (scp && !scp[3]?.startsWith("-"))
      return { transport: "ssh", address: text, displayUrl: text };
    const url = URL.parse(text) ?? undefined;
    if (url && (url.protocol === "https:" || url.protocol === "http:")) return parseHttpUrl(url);
    if (url?.protocol === "ssh:" && isValidForSsh(url)) {
      // ssh authenticates with keys only, so a password in an ssh URL is an error.
      const shown = text.replace(/^(ssh:\/\/[^@/]*?):[^@/]*@/i, "$1@");
      return { transport: "ssh", address: shown, displayUrl: shown };
    }
  }
  throw new BerthError(
    "git_not_found",
    `${JSON.stringify(redactUrl(text))} is not a repository URL`,
    {
      hint: "write https://HOST/PATH, ssh://USER@HOST/PATH or USER@HOST:PATH",
    },
  );
}

/** Removes user and password from a text, which need not be a valid URL. */
export function redactUrl(text: string): string {
  return text.replace(/^([a-z][a-z0-9+.-]*:\/\/)[^/?#]*@/i, "$1").replace(/[?#].*$/s, "");
}

/**
 * True if both URLs name the same repository, regardless of their notation: with or without `.git`, as https or ssh,
 * with or without a default port. It is used for push hooks, because git servers list several URLs of a repository in
 * a hook.
 */
export function isSameRepository(a: string, b: string): boolean {
  const [first, second] = [normalizeRepository(a), normalizeRepository(b)];
  return first !== undefined && first === second;
}

function parseHttpUrl(url: URL): GitUrl {
  const login = {
    username: decodePart(url.username),
    password: decodePart(url.password),
  };
  url.username = "";
  url.password = "";
  url.search = "";
  url.hash = "";
  const address = url.href.replace(/\/+$/, "");
  return {
    transport: "http",
    address,
    displayUrl: address,
    ...(login.username !== "" || login.password !== "" ? { login } : {}),
  };
}

/** Returns false for a name that ssh or a remote shell could read as an option. */
function isValidForSsh(url: URL): boolean {
  const user = decodePart(url.username);
  return (
    /^[A-Za-z0-9_[][A-Za-z0-9._:[\]-]*$/.test(url.hostname) &&
    (user === "" || /^[A-Za-z0-9._][A-Za-z0-9._-]*$/.test(user)) &&
    url.pathname.length > 1
  );
}

function decodePart(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const DEFAULT_PORTS: Readonly<Record<string, string>> = {
  "http:": "80",
  "https:": "443",
  "ssh:": "22",
  "git:": "9418",
};

/**
 * Returns `host/path`, or `host:port/path` for a port that is not the default. The result does not contain the
 * transport, because a push hook names the https URL of a repository that an App may fetch by ssh. `git://` URLs are
 * accepted, because a push hook may contain them too.
 */
function normalizeRepository(text: string): string | undefined {
  const scp = text.includes("://") ? null : SCP.exec(text);
  if (scp) return `${scp[2]?.toLowerCase()}/${normalizePath(scp[3] ?? "")}`;
  const url = URL.parse(text);
  if (!url) return undefined;
  const standard = DEFAULT_PORTS[url.protocol];
  if (standard === undefined) return undefined;
  const port = url.port === "" || url.port === standard ? "" : `:${url.port}`;
  return `${url.hostname.toLowerCase()}${port}/${normalizePath(decodePart(url.pathname))}`;
}

/** Normalizes the path, but keeps its case, which matters to some servers. */
function normalizePath(path: string): string {
  return path
    .replace(/\/{2,}/g, "/")
    .replace(/^\/|\/$/g, "")
    .replace(/\.git$/, "");
}
