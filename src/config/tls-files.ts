import { ConfigError } from "./config-error.ts";

/** A certificate chain and its key, as files in PEM. */
export interface TlsFiles {
  readonly certFile: string;
  readonly keyFile: string;
}

/** Throws ConfigError if only one of the two is set. */
export function pairTlsFiles(
  certFile: string | undefined,
  keyFile: string | undefined,
): TlsFiles | undefined {
  if (certFile === undefined && keyFile === undefined) return undefined;
  if (certFile === undefined || keyFile === undefined)
    throw new ConfigError(
      "tls_cert and tls_key belong together, and only one of them is set",
      "set both to serve the API over HTTPS, or neither",
    );
  return Object.freeze({ certFile, keyFile });
}
