import type { Content } from "./content.ts";

/** What a server does instead of answering as it should. */
export type Misbehaviour =
  /** The connection ends after so many bytes of the body. */
  | { readonly type: "cut"; readonly afterBytes: number }
  /** So many bytes of the body, and then nothing more, on an open connection. */
  | { readonly type: "stall"; readonly afterBytes: number }
  | { readonly type: "slow"; readonly bytesPerSecond: number }
  /** 200 and the whole file to a request for a range. */
  | { readonly type: "no-ranges" }
  /** Content-Length says so much more than comes (the connection ends then), or so much less than there is. */
  | { readonly type: "wrong-length"; readonly byBytes: number }
  /** One bit of the byte at this place of the file is another. */
  | { readonly type: "flip"; readonly atByte: number }
  /** Another content under another ETag. */
  | { readonly type: "changed"; readonly content: Content }
  /** What a CDN says of a signature that is too old. */
  | { readonly type: "expired" }
  /** No answer, on an open connection. */
  | { readonly type: "hang" }
  /** The connection ends before an answer. */
  | { readonly type: "reset" }
  /** 200 with a page for people, as portals of networks do. */
  | { readonly type: "page"; readonly body?: string }
  /** Redirects to itself. */
  | { readonly type: "loop" }
  | { readonly type: "redirect"; readonly to: string; readonly status?: number }
  | {
      readonly type: "status";
      readonly status: number;
      readonly headers?: Readonly<Record<string, string>>;
      readonly body?: string;
    };

/** Of which requests: api (listings), resolve (where a file is), cdn (its bytes), files (plain URLs). */
export type Endpoint = "api" | "resolve" | "cdn" | "files";

export type Fault = Misbehaviour & {
  readonly on: Endpoint;
  /** Only files (or for `api`, repositories) whose name is this, or matches. */
  readonly path?: string | RegExp;
  readonly method?: "GET" | "HEAD";
  /** Of the requests that fit, these many are answered well first; default none. */
  readonly after?: number;
  /** How many of the requests after that; default all. */
  readonly times?: number;
};

/** The faults that are switched on, each for certain requests. */
export class Faults {
  readonly #faults = new Set<{ readonly fault: Fault; seen: number }>();

  /** Returns what switches it off again. */
  add(fault: Fault): () => void {
    const entry = { fault, seen: 0 };
    this.#faults.add(entry);
    return () => this.#faults.delete(entry);
  }

  clear(): void {
    this.#faults.clear();
  }

  /** What applies to a request, the oldest first; counts it. */
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
