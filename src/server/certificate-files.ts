import { readFileSync } from "node:fs";
import { createSecureContext } from "node:tls";
import type { Clock } from "../base/clock.ts";
import { BerthError, getErrorMessage } from "../base/errors.ts";
import type { Certificate } from "../base/http/tls-server.ts";
import type { Logger } from "../base/logger.ts";
import type { TlsFiles } from "../config/tls-files.ts";

/** The interval at which the files are checked. A renewed certificate is used after this time at the latest. */
const CHECK_MS = 30_000;

/** Reads a certificate and its key. Throws BerthError `invalid_request` if they cannot be used. */
export function readCertificate({ certFile, keyFile }: TlsFiles): Certificate {
  try {
    const cert = readFileSync(certFile, "utf8");
    const key = readFileSync(keyFile, "utf8");
    createSecureContext({ cert, key });
    return { cert, key };
  } catch (cause) {
    throw new BerthError(
      "invalid_request",
      `the certificate ${certFile} with the key ${keyFile} cannot be used: ${getErrorMessage(cause)}`,
      { hint: "--tls-cert needs a certificate chain and --tls-key its key, both as PEM", cause },
    );
  }
}

/**
 * Reads the files again at intervals, and calls `onRenewed` when they contain another certificate. If the files cannot
 * be used, the current certificate is kept, and the problem is logged once. Returns a function that stops the checks.
 */
export function watchCertificate(
  files: TlsFiles,
  current: Certificate,
  options: {
    readonly clock: Clock;
    readonly logger: Logger;
    readonly onRenewed: (certificate: Certificate) => void;
  },
): () => void {
  const { clock, logger, onRenewed } = options;
  let known = current;
  let lastProblem = "";
  let stop: (() => void) | undefined;
  let isStopped = false;
  const check = (): void => {
    try {
      const found = readCertificate(files);
      lastProblem = "";
      if (isStopped || (found.cert === known.cert && found.key === known.key)) return;
      known = found;
      onRenewed(found);
      logger.info({}, "the certificate of the API was renewed");
    } catch (error) {
      const problem = getErrorMessage(error);
      if (problem !== lastProblem)
        logger.warn(
          { problem },
          "the renewed certificate of the API cannot be used; the current one is kept",
        );
      lastProblem = problem;
    }
  };
  const schedule = (): void => {
    if (isStopped) return;
    stop = clock.setTimer(CHECK_MS, () => {
      check();
      schedule();
    });
  };
  schedule();
  return () => {
    isStopped = true;
    stop?.();
  };
}
