import type { Content } from "./content.ts";
import type { Served } from "./send-content.ts";

/** The features of a plain web server; by default it has all of them. */
export interface PlainFileOptions {
  /** The kind of the entity tag. By default it is a strong one. */
  readonly etag?: "strong" | "weak" | false;
  readonly lastModified?: string;
  /** If false, the server ignores range requests. Default true. */
  readonly ranges?: boolean;
  /** If false, responses have no Content-Length. Default true. */
  readonly length?: boolean;
  /** If false, HEAD requests are answered with 405. Default true. */
  readonly head?: boolean;
  readonly contentDisposition?: string;
  /** If true, every request needs the hub's token. Default false. */
  readonly needsToken?: boolean;
}

export interface PlainFile {
  readonly content: Content;
  readonly options: PlainFileOptions;
}

export function servedFile({ content, options }: PlainFile): Served {
  const tag = `"${content.sha256.slice(0, 20)}"`;
  return {
    content,
    etag: options.etag === false ? undefined : options.etag === "weak" ? `W/${tag}` : tag,
    lastModified: options.lastModified,
    ranges: options.ranges ?? true,
    length: options.length ?? true,
    headers:
      options.contentDisposition === undefined
        ? {}
        : { "content-disposition": options.contentDisposition },
  };
}
