import { statSync } from "node:fs";
import { ConfigError } from "./config-error.ts";

/** A certificate chain and its key, as files in PEM. */
export interface TlsFiles {
  readonly certFile: string;
  readonly keyFile: string;
}

/** Throws ConfigError if only one of certificate and key is set. */
export function pairTlsFiles(
  certFile: string | undefined,
  keyFile: string | undefined,
): TlsFiles | undefined {
  if (certFile === undefined && keyFile === undefined) return undefined;
  if (certFile === undefined || keyFile === undefined)
    throw new ConfigError(
      "tls_cert and tls_key belong together, but only one of them is set",
      "set both options to serve the API over HTTPS, or neither",
    );
  return Object.freeze({ certFile, keyFile });
}

const READABLE_BY_ALL = 0o004;

/** Returns a warning if every user of the machine can read the key; undefined if not. */
export function findKeyExposure({
  keyFile,
}: Pick<TlsFiles, "keyFile">): { readonly message: string; readonly hint: string } | undefined {
  const stats = statSync(keyFile, { throwIfNoEntry: false });
  if (stats === undefined || (stats.mode & READABLE_BY_ALL) === 0) return undefined;
  const mode = (stats.mode & 0o777).toString(8).padStart(4, "0");
  return {
    message: `every user of this machine can read the key of the API's certificate (mode ${mode})`,
    hint: `run chmod 600 ${keyFile}, or chmod 640 if a group of users has to read it`,
  };
}
