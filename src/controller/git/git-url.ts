import { BerthError } from "../../base/errors.ts";

/** A repository URL, taken apart. */
export interface GitUrl {
  readonly transport: "http" | "ssh";
  /** What a program is given: without user and password for http(s), as it was written for ssh. */
  readonly address: string;
  /** What people are shown: never with a password. */
  readonly displayUrl: string;
  /** `user:password` that stood in an http(s) URL, decoded. */
  readonly login?: { readonly username: string; readonly password: string };
}

/** `user@host:path`, as scp writes it. The path must not begin with `/` twice, nor the host with `-`. */
const SCP =
  /^([A-Za-z0-9._][A-Za-z0-9._-]*)@(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_][A-Za-z0-9._-]*):(.+)$/;
/** Blanks and control characters; git and ssh would cut the text there or take it for two. */
const FORBIDDEN_CHARACTERS = /[\s\p{Cc}]/u;

/** Throws git_not_found for what is no URL of a repository that Berth reads: files, `git://`, options. */
export function parseGitUrl(text: string): GitUrl {
  if (!FORBIDDEN_CHARACTERS.test(text)) {
    const scp = text.includes("://") ? null : SCP.exec(text);
    if (scp && !scp[3]?.startsWith("-"))
      return { transport: "ssh", address: text, displayUrl: text };
    const url = URL.parse(text) ?? undefined;
    if (url && (url.protocol === "https:" || url.protocol === "http:")) return parseHttpUrl(url);
    if (url?.protocol === "ssh:" && isValidForSsh(url)) {
      // A password in an ssh URL has no use: keys are the only way in.
      const shown = text.replace(/^(ssh:\/\/[^@/]*?):[^@/]*@/i, "$1@");
      return { transport: "ssh", address: shown, displayUrl: shown };
    }
  }
  throw new BerthError("git_not_found", `${JSON.stringify(redactUrl(text))} is no repository URL`, {
    hint: "write https://HOST/PATH, ssh://USER@HOST/PATH or USER@HOST:PATH",
  });
}

/** The text without what may be a user and a password; for texts that may be no URL at all. */
export function redactUrl(text: string): string {
  return text.replace(/^([a-z][a-z0-9+.-]*:\/\/)[^/?#]*@/i, "$1").replace(/[?#].*$/s, "");
}

/**
 * True where both name the same repository, however each is written: with or without `.git`, as https
 * or ssh, with a default port. For push hooks, whose senders list several URLs of one repository.
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

/** What ssh and a remote's shell would take for an option has no place in a name. */
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
 * `host/path`, and `host:port/path` for a port of its own. The transport is left out: a hook names the
 * https URL of what an App may fetch by ssh. `git://`, which is never fetched, is read here for that too.
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

/** Servers differ in the case of paths, so it is kept. */
function normalizePath(path: string): string {
  return path
    .replace(/\/{2,}/g, "/")
    .replace(/^\/|\/$/g, "")
    .replace(/\.git$/, "");
}
