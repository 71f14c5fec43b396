import type { Content } from "./content.ts";

/** The fault with which a server answers a request. */
export type Misbehaviour =
  /** The connection ends after `afterBytes` of the body. */
  | { readonly type: "cut"; readonly afterBytes: number }
  /** The server sends `afterBytes` of the body, and then nothing more, on an open connection. */
  | { readonly type: "stall"; readonly afterBytes: number }
  | { readonly type: "slow"; readonly bytesPerSecond: number }
  /** The server answers range requests with 200 and the whole file. */
  | { readonly type: "no-ranges" }
  /** Content-Length is wrong by `byBytes`. If it is too large, the connection ends early. */
  | { readonly type: "wrong-length"; readonly byBytes: number }
  /** One bit of the byte at this position of the body is flipped. */
  | { readonly type: "flip"; readonly atByte: number }
  /** The server sends other content with another ETag. */
  | { readonly type: "changed"; readonly content: Content }
  /** The server responds as a CDN does to an expired signature. */
  | { readonly type: "expired" }
  /** The server accepts the connection, and never responds to the request. */
  | { readonly type: "hang" }
  /** The connection is reset before the response. */
  | { readonly type: "reset" }
  /** The server sends a web page with the status 200, as captive portals do. */
  | { readonly type: "page"; readonly body?: string }
  /** The URL redirects to itself. */
  | { readonly type: "loop" }
  | { readonly type: "redirect"; readonly to: string; readonly status?: number }
  | {
      readonly type: "status";
      readonly status: number;
      readonly headers?: Readonly<Record<string, string>>;
      readonly body?: string;
    };

/**
 * The kind of request: api (lists of files), resolve (redirects to files), cdn (the bytes of files in LFS), files
 * (plain URLs).
 */
export type Endpoint = "api" | "resolve" | "cdn" | "files";

export type Fault = Misbehaviour & {
  readonly on: Endpoint;
  /**
   * The name of the file to which the fault applies, or a pattern that the name must match. For `api`, the name is a
   * repository's id, and for `files`, the path of the URL. By default, the fault applies to all.
   */
  readonly path?: string | RegExp;
  readonly method?: "GET" | "HEAD";
  /** The number of matching requests that are answered correctly before the fault. Default 0. */
  readonly after?: number;
  /** The number of matching requests that get the fault, once `after` requests were answered. Default: all. */
  readonly times?: number;
};

/** The list of faults that are active. */
export class Faults {
  readonly #faults = new Set<{ readonly fault: Fault; seen: number }>();

  /** Adds a fault, and returns a function that removes it. */
  add(fault: Fault): () => void {
    const entry = { fault, seen: 0 };
    this.#faults.add(entry);
    return () => this.#faults.delete(entry);
  }

  clear(): void {
    this.#faults.clear();
  }

  /** Counts the request, and returns the faults that apply to it, oldest first. */
  take(on: Endpoint, method: string, path: string): readonly Misbehaviour[] {
    const taken: Misbehaviour[] = [];
    for (const entry of this.#faults) {
      const { fault } = entry;
      if (fault.on !== on || (fault.method !== undefined && fault.method !== method)) continue;
      if (!fits(fault.path, path)) continue;
      entry.seen += 1;
      const turn = entry.seen - (fault.after ?? 0);
      if (turn >= 1 && turn <= (fault.times ?? Number.POSITIVE_INFINITY)) taken.push(fault);
    }
    return taken;
  }
}

function fits(wanted: string | RegExp | undefined, path: string): boolean {
  if (wanted === undefined) return true;
  return typeof wanted === "string" ? wanted === path : wanted.test(path);
}
