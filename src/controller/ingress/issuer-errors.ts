import { open } from "node:fs/promises";

/**
 * The number of bytes that are read at the end of Caddy's log. They contain a few hundred attempts to get a
 * certificate.
 */
const READ_BYTES = 256 * 1024;
const ERROR_LENGTH_MAX = 300;

/** Finds in Caddy's log why authorities have refused certificates. */
export class IssuerErrors {
  readonly #logFile: string;
  /** The last known error for each domain name, kept here because Caddy rotates its log. */
  readonly #errors = new Map<string, string>();

  constructor(logFile: string) {
    this.#logFile = logFile;
  }

  /**
   * Returns the last error for this name, with the authority that reported it. Undefined if there was none, or if
   * there is no log.
   */
  async find(name: string): Promise<string | undefined> {
    for (const line of (await this.#readEnd()).split("\n")) {
      const failure = parseFailure(line);
      if (failure) this.#errors.set(failure.name, failure.error);
    }
    return this.#errors.get(name);
  }

  async #readEnd(): Promise<string> {
    try {
      const file = await open(this.#logFile, "r");
      try {
        const { size } = await file.stat();
        const length = Math.min(size, READ_BYTES);
        const { buffer } = await file.read(Buffer.alloc(length), 0, length, size - length);
        return buffer.toString("utf8");
      } finally {
        await file.close();
      }
    } catch {
      return "";
    }
  }
}

/** Parses certmagic's log line about a certificate that one certificate authority did not issue. */
function parseFailure(line: string): { name: string; error: string } | undefined {
  if (!line.includes("could not get certificate from issuer")) return undefined;
  try {
    const entry: unknown = JSON.parse(line);
    if (typeof entry !== "object" || entry === null) return undefined;
    const read = (key: string) => {
      const value: unknown = Reflect.get(entry, key);
      return typeof value === "string" ? value : "";
    };
    const [name, error, issuer] = [read("identifier"), read("error"), read("issuer")];
    if (name === "" || error === "") return undefined;
    // The key of an authority is its directory's URL with dashes, such as acme-v02.api.letsencrypt.org-directory.
    const authority = issuer.replace(/-directory$/, "");
    return { name, error: `${authority === "" ? "the authority" : authority}: ${shorten(error)}` };
  } catch {
    return undefined;
  }
}

/** Shortens a message, and removes control characters and paths of this machine. */
function shorten(error: string): string {
  return error
    .replaceAll(/\p{Cc}+/gu, " ")
    .replaceAll(/(^|[\s"'=])\/[^\s"':]+/g, "$1(path)")
    .slice(0, ERROR_LENGTH_MAX);
}
